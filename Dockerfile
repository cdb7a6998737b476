# A service of fitted models: docker run -p 8000:8000 -v "$PWD/models:/models:ro" IMAGE /models/NAME.safetensors
FROM python:3.12-slim

# Kernels are compiled once, while the image is built, and found again by the user below.
ENV NUMBA_CACHE_DIR=/var/cache/partwise PIP_NO_CACHE_DIR=1
COPY . /source
RUN pip install "/source[serve]" && rm -rf /source \
    && useradd --system partwise && install -d -o partwise /var/cache/partwise
USER partwise
RUN partwise warm-up
EXPOSE 8000
HEALTHCHECK CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/ready')"]
ENTRYPOINT ["partwise", "serve", "--host", "0.0.0.0"]
