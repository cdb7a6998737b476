"""Dates, times of day and durations in text files, and what each must be read as."""

import datetime

from tests.files.nasty import Nasty, day

TIMES = [
    Nasty(
        "times of day",
        "who,when\nx,15:10\ny,7:05\nz,\n",
        {"who": ["x", "y", "z"], "when": [datetime.time(15, 10), datetime.time(7, 5), None]},
    ),
    Nasty(
        "times with AM and PM",
        "who,when\nx,3:10 PM\ny,12:05 AM\n",
        {"who": ["x", "y"], "when": [datetime.time(15, 10), datetime.time(0, 5)]},
    ),
    Nasty(
        "dates with points",
        "who;when\nx;31.12.2008\ny;1.2.2009\nz;\n",
        {"who": ["x", "y", "z"], "when": [day(2008, 12, 31), day(2009, 2, 1), None]},
    ),
    Nasty(
        "dates of either order",
        "who,when\nx,12/1/2008\ny,1/2/2009\n",
        refused="line 2: column 'when' holds '12/1/2008', a date with the day first or the month "
        "first; use --date-order dmy or --date-order mdy",
    ),
    Nasty(
        "the same, told the order",
        "who,when\nx,12/1/2008\ny,1/2/2009\nz,?\n",
        {"who": ["x", "y", "z"], "when": [day(2008, 12, 1), day(2009, 1, 2), None]},
        options={"date_order": "mdy"},
    ),
    Nasty(
        "dates whose order one of them tells",
        "who,when,then\nx,12/1/2008,5/6/2008\ny,1/22/2009,7/8/2009\n",
        {
            "who": ["x", "y"],
            "when": [day(2008, 12, 1), day(2009, 1, 22)],
            "then": [day(2008, 5, 6), day(2009, 7, 8)],
        },
        told="dates in 'then' have the month first",
    ),
    Nasty(
        "months that look like numbers",
        "who;month;other\nx;01.2020;2020-03\ny;10.2020;\nz;;2021-11\n",
        {
            "who": ["x", "y", "z"],
            "month": [day(2020, 1, 1), day(2020, 10, 1), None],
            "other": [day(2020, 3, 1), None, day(2021, 11, 1)],
        },
        told="'month' holds months",
    ),
    Nasty(
        "months that may be numbers",
        "who;month\nx;11.2020\ny;10.2020\n",
        refused=r"a number or a month; use --decimal 'month=\.' or --kind 'month=categorical'",
    ),
    Nasty(
        "years of two digits in one century",
        "who;born\nx;03.04.45\ny;01.12.87\nz;\n",
        {"who": ["x", "y", "z"], "born": [day(1945, 4, 3), day(1987, 12, 1), None]},
        told="two-digit years in 'born' are 1945 to 1987",
    ),
    Nasty(
        "years of two digits before and after 2000",
        "who,seen\nx,12/31/95\ny,1/2/05\nz,\n",
        {"who": ["x", "y", "z"], "seen": [day(1995, 12, 31), day(2005, 1, 2), None]},
        told="two-digit years in 'seen' are 1995 to 2005",
    ),
    Nasty(
        "years of two digits that programs take for different centuries",
        "who;due\nx;03.04.35\ny;01.12.52\n",
        refused="line 2: column 'due' has two-digit years, which are 1935 to 1952 or 2035 to 2052; "
        "use --first-year 'due=1935' or --first-year 'due=2035'",
    ),
    Nasty(
        "the same, told the first year",
        "who;due\nx;03.04.35\ny;01.12.52\nz;\n",
        {"who": ["x", "y", "z"], "due": [day(2035, 4, 3), day(2052, 12, 1), None]},
        options={"first_year": 2030},
    ),
    Nasty(
        "years of two digits all over a century",
        "n;seen\n" + "".join(f"{i};01.02.{i:02}\n" for i in range(0, 100, 9)),
        refused="line 2: column 'seen' has two-digit years of any decade; .* use --first-year "
        "'seen=1930', the first of a hundred years",
    ),
    Nasty(
        "lengths of songs",
        "song,length\na,3:45\nb,12:05\nc,\n",
        {
            "song": ["a", "b", "c"],
            "length": [datetime.timedelta(seconds=225), datetime.timedelta(seconds=725), None],
        },
        options={"durations": {"length": "m:ss"}},
        told="'length' holds durations",
    ),
    Nasty(
        "lengths with fractions of seconds",
        "song,length\na,3:45.2\nb,102:05.5\nc,\n",
        {
            "song": ["a", "b", "c"],
            "length": [datetime.timedelta(seconds=225.2), datetime.timedelta(seconds=6125.5), None],
        },
        options={"durations": {"length": "m:ss"}},
    ),
    Nasty(
        "fractions of seconds where durations are in hours",
        "task,took\na,3:45\nb,3:45.2\n",
        refused="line 3: column 'took' holds '3:45.2', which is no duration such as 3:45 or "
        "3:45:10.5; correct it, or leave out --duration 'took=h:mm'",
        options={"durations": {"took": "h:mm"}},
    ),
    Nasty(
        "durations of a hundred hours and more",
        "task,took\na,100:15\nb,120:30\nc,\n",
        {
            "task": ["a", "b", "c"],
            "took": [datetime.timedelta(minutes=6015), datetime.timedelta(minutes=7230), None],
        },
        told="'took' holds durations .hours and minutes",
    ),
    Nasty(
        "days without marks that are the same in either order",
        "day,n\n" + "".join(f"0{m}0{m}1990,1\n" for m in range(1, 9)) + ",1\n",
        {"day": [*(day(1990, m, m) for m in range(1, 9)), None], "n": [1] * 9},
    ),
    Nasty(
        "durations of less than a day",
        "task,took\na,3:45\nb,12:05\nc,\n",
        {
            "task": ["a", "b", "c"],
            "took": [datetime.timedelta(minutes=225), datetime.timedelta(minutes=725), None],
        },
        options={"durations": {"took": "h:mm"}},
    ),
    Nasty(
        "afternoons with points",
        "who,when\nx,3:10 p.m.\ny,12:05 a.m.\nz,\n",
        {"who": ["x", "y", "z"], "when": [datetime.time(15, 10), datetime.time(0, 5), None]},
    ),
    Nasty(
        "months of another language",
        "n;day\n1;5. März 2020\n2;31. Dezember 2020\n",
        refused="line 2: column 'day' holds '5. März 2020', which looks like a date in words",
    ),
    Nasty(
        "dates with signs of their own",
        "n,day\n1,2020年1月5日\n2,2020年12月31日\n3,\n",
        {"n": [1, 2, 3], "day": [day(2020, 1, 5), day(2020, 12, 31), None]},
    ),
    Nasty(
        "a log with commas in its seconds",
        "t;n\n2020-01-01 12:00:00,125;1\n2020-01-01 12:00:01,500;\n",
        {
            "t": [
                datetime.datetime(2020, 1, 1, 12, 0, 0, 125000),
                datetime.datetime(2020, 1, 1, 12, 0, 1, 500000),
            ],
            "n": [1, None],
        },
    ),
    Nasty(
        "dates without marks, with the day first",
        "day,n\n" + "".join(f"{d}112020,1\n" for d in ("05", 11, 12, 13, 17, 24, 30)) + ",1\n",
        {
            "day": [*(day(2020, 11, d) for d in (5, 11, 12, 13, 17, 24, 30)), None],
            "n": [1] * 8,
        },
        told="dates in 'day' have the day first",
    ),
    Nasty(
        "months without marks",
        "month,n\n" + "".join(f"2020{m:02},{m}\n" for m in range(1, 13)) + ",1\n",
        {"month": [*(day(2020, m, 1) for m in range(1, 13)), None], "n": [*range(1, 13), 1]},
        told="'month' holds months",
    ),
]
