"""Text files of survey tools, databases and laboratories, and what each must be read as."""

import datetime

from tests.files.nasty import Nasty, day

N = range(12)


def column(name, cells):
    """A file with these cells, and a column of categories beside them."""
    lines = [f"{name},g", *(f"{cell},{'ab'[i % 2]}" for i, cell in enumerate(cells))]
    return "\n".join([*lines, ""])


def read(name, cells, values, **more):
    text = column(name, [*cells, ""])
    beside = ["ab"[i % 2] for i in range(len(cells) + 1)]
    return Nasty(more.pop("called"), text, {name: [*values, None], "g": beside}, **more)


WILD = [
    read(
        "q",
        ["2019Q4", "2020Q1", "2020Q3"],
        [day(2019, 10, 1), day(2020, 1, 1), day(2020, 7, 1)],
        called="quarters after years",
        told="'q' holds quarters",
    ),
    read(
        "q",
        ["Q4 2019", "Q1 2020"],
        [day(2019, 10, 1), day(2020, 1, 1)],
        called="quarters before years",
        told="'q' holds quarters",
    ),
    read(
        "q",
        ["Q4/19", "Q1/20"],
        [day(2019, 10, 1), day(2020, 1, 1)],
        called="quarters with years of two digits",
        told="two-digit years in 'q' are 2019 to 2020",
    ),
    read(
        "w",
        ["2020-W53", "2021-W01"],
        [day(2020, 12, 28), day(2021, 1, 4)],
        called="weeks",
        told="'w' holds weeks",
    ),
    read(
        "w",
        ["2020W53", "2021W01"],
        [day(2020, 12, 28), day(2021, 1, 4)],
        called="weeks without a mark",
        told="'w' holds weeks",
    ),
    read(
        "w",
        ["2020-W53-7", "2021-W01-1"],
        [day(2021, 1, 3), day(2021, 1, 4)],
        called="days of weeks",
    ),
    read(
        "m",
        ["March 2020", "May 2021"],
        [day(2020, 3, 1), day(2021, 5, 1)],
        called="long names of months",
        told="'m' holds months",
    ),
    read(
        "m",
        ["Mar-20", "May-21"],
        [day(2020, 3, 1), day(2021, 5, 1)],
        called="months of a spreadsheet",
        told="two-digit years in 'm' are 2020 to 2021",
    ),
    read(
        "m",
        ["2020M03", "2021M11"],
        [day(2020, 3, 1), day(2021, 11, 1)],
        called="months of Eurostat",
        told="'m' holds months",
    ),
    read(
        "season",
        ["2009-10", "2010-11", "2011-12"],
        ["2009-10", "2010-11", "2011-12"],
        called="school years that look like months",
    ),
    Nasty(
        "a month that is none",
        column("m", ["2020-03", "2020-13", "2021-01", "2021-02"]),
        refused="line 3: column 'm' holds '2020-13', though most of its values are dates",
    ),
    read(
        "d",
        ["11JAN2024", "27SEP2023"],
        [day(2024, 1, 11), day(2023, 9, 27)],
        called="dates of SAS",
    ),
    read(
        "t",
        ["11JAN2024:10:04:05", "27SEP2023:23:00:00"],
        [datetime.datetime(2024, 1, 11, 10, 4, 5), datetime.datetime(2023, 9, 27, 23)],
        called="times of SAS",
    ),
    read(
        "t",
        ["2024/01/05 3:04:05 pm GMT+1", "2024/01/06 12:00:00 am GMT+1"],
        [datetime.datetime(2024, 1, 5, 15, 4, 5), datetime.datetime(2024, 1, 6)],
        called="times of a survey form",
    ),
    Nasty(
        "times of a survey form in summer and winter",
        column("t", ["2024/01/05 3:04:05 pm GMT+1", "2024/07/05 3:04:05 pm GMT+2"]),
        refused="line 3: column 't' holds .*GMT.2', though most of its values are dates",
    ),
    read(
        "t",
        [f"2024030{i}101500" for i in range(1, 8)],
        [datetime.datetime(2024, 3, i, 10, 15) for i in range(1, 8)],
        called="times without marks",
    ),
    read(
        "t",
        ["20240301T101500Z", "20240302T101500Z"],
        [datetime.datetime(2024, 3, i, 10, 15) for i in (1, 2)],
        called="times without marks in the basic form",
    ),
    read(
        "t",
        ["10/Oct/2000:13:55:36 -0700", "11/Oct/2000:13:55:36 -0700"],
        [datetime.datetime(2000, 10, i, 13, 55, 36) for i in (10, 11)],
        called="times of a web server",
    ),
    Nasty(
        "times with names of days",
        column("t", ["Tue Feb 04 2020 10:04:05 GMT+0100", "Wed Feb 05 2020 11:04:05 GMT+0100"]),
        refused="line 2: column 't' holds 'Tue Feb 04 2020 .*', which looks like a date in words",
    ),
    *(
        Nasty(
            f"digits of another script, {cells[0]}",
            column("x", cells),
            refused=f"line 2: column 'x' holds '{cells[0]}', whose digits are not 0 to 9; write "
            f"'{plain}'",
        )
        for cells, plain in ((["１２", "３４"], "12"), (["١٢٫٥", "٣٤"], "12.5"))
    ),
    Nasty(
        "codes that look like powers of ten, among numbers",
        column("x", ["1234", "12e4", "5678"]),
        refused="line 3: column 'x' holds '12e4', a number or a code",
    ),
    read("x", ["250000", "1e+05"], [2.5e5, 1e5], called="powers of ten as R writes them"),
    *(
        Nasty(
            f"numbers with what nobody sees, {mark!r}",
            column("x", ["1.5", f"{mark}2.5", "3.5", f"4.5{mark}"]),
            refused="line 3: column 'x' holds .*, a number with other characters around it",
        )
        for mark in ("\u200b", "\u200f", "'")
    ),
    Nasty(
        "Indian groups of digits",
        'x,g\n"12,34,567.50",a\n"45,678.25",b\n,a\n',
        {"x": [1234567.5, 45678.25, None], "g": ["a", "b", "a"]},
        told="commas in 'x' separate thousands",
    ),
    *(
        Nasty(
            f"a number with a word, {cell}",
            column("x", ["1.5", cell, "3.5", "4.5"]),
            refused="line 3: column 'x' holds .* beside numbers; write a number instead",
        )
        for cell in ("ca. 2.5", "2.5?", "2.5 (est.)", "p<0.01")
    ),
    read(
        "x",
        ["1.5", "\uff0d2.5", "3.5", "\u20114.5"],
        [1.5, -2.5, 3.5, -4.5],
        called="wide minus signs, and hyphens",
    ),
    read(
        "d",
        ["1445-06-23", "1445-07-29"],
        [day(1445, 6, 23), day(1445, 7, 29)],
        called="dates of another calendar",
        told="dates in 'd' are of the years 1445 to 1445",
    ),
    Nasty(
        "two byte order marks",
        "\ufeff\ufeffx,g\n1,a\n2,b\n",
        refused="line 1: the line begins with a byte order mark",
    ),
    Nasty(
        "versions that look like numbers",
        column("version", ["1.9", "1.10", "2.0"]),
        {"version": [1.9, 1.1, 2.0], "g": ["a", "b", "a"]},
        told="1.10 in 'version' is read as 1.1",
    ),
    Nasty(
        "missing values of Stata",
        column("x", [".a", "1", ".", "2", ".b", ".c", "3"]),
        refused="line 2: column 'x' holds '.a' beside numbers; if it means missing, use --missing",
    ),
    Nasty(
        "missing values of a database",
        "1\ta\t2.5\n2\tb\t\\N\n3\ta\t1.5\n",
        {"x0": [1, 2, 3], "x1": ["a", "b", "a"], "x2": [2.5, None, 1.5]},
    ),
    Nasty(
        "missing dates of pandas",
        "d,n\n2020-01-01,1\nNaT,2\n",
        {"d": [day(2020, 1, 1), None], "n": [1, 2]},
    ),
    Nasty(
        "three rows of names",
        "when,n\nStart,Age\nImportId,QID1\n2024-01-01,3\n2024-01-02,4\n2024-01-03,5\n2024-01-04,6\n",
        refused="line 2: column 'when' holds 'Start' above its values, .* remove these 2 lines",
    ),
    Nasty(
        "names of columns in the middle of texts",
        "color,size\nred,S\ncolor,size\ngreen,M\n",
        refused="line 3: the line repeats the column names",
    ),
    Nasty(
        "a last row of means",
        "g,v\na,1.5\nb,2.5\nc,3.5\nAverage,2.5\n",
        refused="line 5: the last row, 'Average', is the mean of the others in column 'v'",
    ),
    Nasty(
        "a last row of sums without a name",
        "g,v\n" + "".join(f"p{i},{i + 1}\n" for i in N) + ",78\n",
        refused="line 14: the last row is the sum of the others in column 'v'",
    ),
    Nasty(
        "sums between the rows",
        "g,v\na,1\nb,2\nSubtotal,3\na,3\nb,5\nSubtotal,8\na,1\n",
        {"g": ["a", "b", "Subtotal", "a", "b", "Subtotal", "a"], "v": [1, 2, 3, 3, 5, 8, 1]},
        told="rows with 'Subtotal' in 'g' may sum up others",
    ),
    Nasty(
        "a source below the table",
        "g,v\na,1\nb,2\nSource: World Bank,\n",
        {"g": ["a", "b", "Source: World Bank"], "v": [1, 2, None]},
        told="the last row has nothing but 'Source: World Bank', which may be a remark",
    ),
    Nasty(
        "rows without values",
        "g,v\na,1\n,\nb,2\n",
        {"g": ["a", None, "b"], "v": [1, None, 2]},
        told="1 row without any value",
    ),
    Nasty(
        "merged cells",
        "region,v\nNorth,1\n,2\n,3\nSouth,4\n,5\n",
        {"region": ["North", None, None, "South", None], "v": [1, 2, 3, 4, 5]},
        told="'region' has values in few rows, the first among them",
    ),
    Nasty(
        "categories that differ in what is not seen",
        "g,v\nred,1\nred\u200b,2\nblue,3\n",
        {"g": ["red", "red\u200b", "blue"], "v": [1, 2, 3]},
        told="'g' has values that differ only in blanks or accents",
    ),
    Nasty(
        "a dash as a category",
        "g,v\nred,1\n-,2\nblue,3\n",
        {"g": ["red", "-", "blue"], "v": [1, 2, 3]},
        told="'-' in 'g' is taken as a category",
    ),
    Nasty(
        "codes of countries, of which one is NA",
        "g,v\nNA,1\nUS,2\nDE,3\nFR,4\n",
        {"g": [None, "US", "DE", "FR"], "v": [1, 2, 3, 4]},
        told="NA means missing in 'g'",
    ),
    Nasty(
        "names of genes that a spreadsheet took for dates",
        "g,v\nTP53,1\n1-Mar,2\nKRAS,3\n",
        {"g": ["TP53", "1-Mar", "KRAS"], "v": [1, 2, 3]},
        told="'1-Mar' in 'g' may be a date that a spreadsheet made of another text",
    ),
    Nasty(
        "letters that were decoded wrongly",
        "g,v\nM\u00c3\u00bcller,1\nEau,2\n",
        {"g": ["M\u00c3\u00bcller", "Eau"], "v": [1, 2]},
        told="another program has decoded letters wrongly, as in 'M\u00c3\u00bc'",
    ),
    *(
        Nasty(
            f"values with {mark!r} between them",
            f"id{mark}g{mark}v\n1{mark}a{mark}2.5\n2{mark}b{mark}1.5\n",
            refused="between its values; save it with commas or tabs between them",
        )
        for mark in ("~", "^", ":", "\x01")
    ),
    Nasty(
        "whole lines in quotes",
        '"id,g,v"\n"1,a,2.5"\n"2,b,1.5"\n',
        refused="has whole lines in quotes, with commas in them; remove these quotes",
    ),
    Nasty(
        "columns of fixed width with texts of several words",
        "name      city        v\nred       Rome        5.8\nblue      New York    7.9\n",
        refused="has blanks between its values",
    ),
    Nasty(
        "a table of R without a name for its row names",
        '"g" "v"\n"1" "red" 5.88\n"2" "blue" 7.89\n',
        refused="has blanks between its values",
    ),
    Nasty(
        "the same with commas",
        '"g","v"\n"1","red",5.88\n"2","blue",7.89\n',
        refused="line 2: the first line has 2 names for 3 columns; add a name for the first",
    ),
    *(
        Nasty(f"{what} named csv", text, refused=f"is {what}, not a table of text")
        for what, text in (
            ("a web page", "<!-- exported -->\n<table><tr><td>1</td></tr></table>\n"),
            ("SQL", "INSERT INTO t VALUES (1,'a');\nINSERT INTO t VALUES (2,'b');\n"),
            ("an ARFF file", "@relation x\n@attribute a numeric\n@data\n1\n2\n"),
            ("a Matrix Market file", "%%MatrixMarket matrix coordinate real\n3 3 1\n1 1 0.5\n"),
        )
    ),
    Nasty(
        "a zero byte far below",
        "g,v\n" + "red,1\n" * 3000 + "r\0d,2\n",
        refused="line 3002: the text contains a zero byte",
    ),
]
