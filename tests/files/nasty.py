"""Text files as spreadsheets and other programs leave them, and what each must be read as.

Each is either read as ``values``, or refused with a sentence in which ``refused`` is found; nothing
may be read as something else without a word.
"""

import datetime
from typing import Any, NamedTuple


class Nasty(NamedTuple):
    """A file, options, and what must come out."""

    name: str
    text: str
    values: dict[str, list[Any]] | None = None
    refused: str = ""
    options: dict[str, Any] = {}  # noqa: RUF012  # never changed
    encoding: str = "utf-8"
    told: str = ""


def day(year, month, of_month):
    return datetime.date(year, month, of_month)


NASTY = [
    Nasty(
        "thousands with points beside small numbers",
        "town;people\nA;1.407\nB;877\n",
        refused=r"line 2: column 'people' holds '1\.407', which is 1407 or 1\.407; use --thousands "
        r"'\.' or --decimal '\.'",
    ),
    Nasty(
        "the same, told that points are thousands",
        "town;people\nA;1.407\nB;877\nC;\n",
        {"town": ["A", "B", "C"], "people": [1407, 877, None]},
        options={"thousands": "."},
        told="points in 'people' separate thousands",
    ),
    Nasty(
        "the same, told for one column that points are decimals",
        "town;people;n\nA;1.407;1\nB;877;2\n",
        {"town": ["A", "B"], "people": [1.407, 877.0], "n": [1, 2]},
        options={"decimal": {"people": "."}},
    ),
    Nasty(
        "decimal commas elsewhere tell what points are",
        "town;people;area\nA;1.407;2,5\nB;877;13,25\nC;;1,0\n",
        {"town": ["A", "B", "C"], "people": [1407, 877, None], "area": [2.5, 13.25, 1.0]},
    ),
    Nasty(
        "Excel's Unicode text, with thousands in commas",
        "town\tpeople\nA\t1,407\nB\t877\n",
        refused=r"'1,407', which is 1407 or 1\.407; use --thousands ',' or --decimal ','",
        encoding="utf-16",
    ),
    Nasty(
        "the same beside a column with decimal points",
        "town\tpeople\tshare\r\nA\t1,407\t.5\r\nB\t877\t2.25\r\nC\t12,000\t\r\n",
        {"town": ["A", "B", "C"], "people": [1407, 877, 12000], "share": [0.5, 2.25, None]},
        encoding="utf-16",
    ),
    Nasty(
        "points here and commas there",
        "a;b\n1.5;x\n1,5;y\n",
        refused="line 3: column 'a' holds both '1.5' and '1,5'",
    ),
    Nasty(
        "dollars with accounting negatives",
        'item,amount\nx,"$1,234.50"\ny,"($3.25)"\nz,\n',
        {"item": ["x", "y", "z"], "amount": [1234.5, -3.25, None]},
        told="'amount' is in \\$; parentheses in 'amount' mean negative",
    ),
    Nasty(
        "euros after the number",
        "item;amount\nx;1.234,50 €\ny;-3,25 €\nz;NA\n",
        {"item": ["x", "y", "z"], "amount": [1234.5, -3.25, None]},
    ),
    Nasty(
        "several currencies",
        "item,amount\nx,$5\ny,€6\nz,£7\n",
        refused=r"looks like money in several currencies .*use --kind 'amount=categorical'",
    ),
    Nasty(
        "percentages",
        "item,share\nx,45%\ny,5.5%\nz,\n",
        {"item": ["x", "y", "z"], "share": [45.0, 5.5, None]},
        told="'share' is in %",
    ),
    Nasty(
        "percentages and shares",
        "item,share\nx,45%\ny,0.055\n",
        refused="line 3: column 'share' looks like percentages, but '0.055' has no %",
    ),
    Nasty(
        "a title above the table",
        "Sales of 2020\n\nitem,n\nx,1\ny,2\n",
        refused=r"2 values where the first line has 1; .*--skip-rows 1",
    ),
    Nasty(
        "the same, skipped",
        "Sales of 2020\n\nitem,n\nx,1\ny,\n",
        {"item": ["x", "y"], "n": [1, None]},
        options={"skip_rows": 2},
    ),
    Nasty(
        "a title in the first cell of as many columns",
        "Sales of 2020,,\nitem,n,m\nx,1,2\ny,2,3\n",
        refused="looks like a title; skip it with --skip-rows 1",
    ),
    Nasty(
        "blank and equal names",
        ',n,n,\n0,1,2,x\n1,3,4,"y, z"\n',
        {"x0": [0, 1], "n": [1, 3], "n (2)": [2, 4], "x3": ["x", "y, z"]},
    ),
    Nasty(
        "years as names",
        "land,2001,2002\nX,1,2\nY,3,4\n",
        refused="the first line may be column names .* use --header or --no-header",
    ),
    Nasty(
        "Windows' encoding",
        "name,n\nJosé – “x”,1\nZoë €,2\n",
        refused="line 2: the text is not UTF-8; .*--encoding cp1252",
        encoding="cp1252",
    ),
    Nasty(
        "Windows' encoding taken for another",
        "name,n\nJosé – “x”,1\n",
        refused="line 2: the text contains a control character in latin-1; .*--encoding cp1252",
        options={"encoding": "latin-1"},
        encoding="cp1252",
    ),
    Nasty(
        "Windows' encoding, told",
        'name,n\r\n"José – “x”",1\r\n"Zoë €",\r\n',
        {"name": ["José – “x”", "Zoë €"], "n": [1, None]},
        options={"encoding": "cp1252"},
        encoding="cp1252",
    ),
    Nasty(
        "lines that end with a carriage return",
        "name,n\rx,1\ry,\r",
        {"name": ["x", "y"], "n": [1, None]},
    ),
    Nasty(
        "the word None",
        "alley,n\nNone,1\nPaved,2\n",
        {"alley": [None, "Paved"], "n": [1, 2]},
        told="the word None means missing in alley .--keep-none",
    ),
    Nasty(
        "the word None as an answer",
        "alley,n\nNone,1\nPaved,\n",
        {"alley": ["None", "Paved"], "n": [1, None]},
        options={"keep_none": True},
    ),
    Nasty(
        "numbers with leading zeros that name the rows",
        "id,n\n007,1\n008,\n",
        {"n": [1, None]},
        options={"id_column": "id"},
    ),
    Nasty(
        "all in quotes, with a mark of its own for missing values",
        '"name","n","when"\n"a ""b""","1.50","2024-01-02"\n"c","-99","-99"\n',
        {"name": ['a "b"', "c"], "n": [1.5, None], "when": [day(2024, 1, 2), None]},
        options={"missing": ["-99"]},
    ),
    Nasty(
        "Swiss thousands, blanks around values, and no line end at the end",
        "name; n\nx; 12'345.50\ny; 3.00\nz; NA",
        {"name": ["x", "y", "z"], "n": [12345.5, 3.0, None]},
    ),
    Nasty(
        "a mark of UTF-8, yes or no in capitals, and dates of a database",
        "\ufeffok|seen\r\nTRUE|2024-01-02T03:04:05Z\r\nFALSE|\r\n|2024-02-03T00:00:00Z\r\n",
        {
            "ok": [True, False, None],
            "seen": [
                datetime.datetime(2024, 1, 2, 3, 4, 5),
                None,
                datetime.datetime(2024, 2, 3),
            ],
        },
    ),
    Nasty(
        "thousands and decimals that are both points",
        "who,n\nx,1.234.567\ny,5.5\n",
        refused="line 3: column 'n' holds both '1.234.567' and '5.5'",
    ),
    Nasty(
        "amounts with a unit",
        "who,weight\nx,71 kg\ny,68 kg\nz,\n",
        {"who": ["x", "y", "z"], "weight": [71, 68, None]},
        told="'weight' is in kg",
    ),
    Nasty(
        "scientific notation",
        "who,n\nx,1.843E-03\ny,-5.120E+02\nz,\n",
        {"who": ["x", "y", "z"], "n": [0.001843, -512.0, None]},
    ),
    Nasty(
        "scientific notation with decimal commas",
        "who;n\nx;6,33E+04\ny;-5,12E+02\nz;\n",
        {"who": ["x", "y", "z"], "n": [63300.0, -512.0, None]},
    ),
    Nasty(
        "changes with their signs",
        "who,n\nx,+1.50\ny,-0.25\nz,\n",
        {"who": ["x", "y", "z"], "n": [1.5, -0.25, None]},
    ),
    Nasty(
        "minus signs at the end",
        "who;n\nx;12,00-\ny;1.250,50\nz;\n",
        {"who": ["x", "y", "z"], "n": [-12.0, 1250.5, None]},
    ),
    Nasty(
        "minus signs between amounts and their unit",
        "who;n\nx;12,00- EUR\ny;1.250,50 EUR\nz;\n",
        {"who": ["x", "y", "z"], "n": [-12.0, 1250.5, None]},
        told="'n' is in EUR",
    ),
    Nasty(
        "negative twice",
        "who;n\nx;(12.00-)\ny;7.50\nz;\n",
        refused=r"line 2: column 'n' holds '\(12\.00-\)' beside numbers",
    ),
    Nasty(
        "digits of several scripts",
        "who;n\nx;1.5\ny;٣\n",
        refused="line 3: column 'n' holds '٣', whose digits are not 0 to 9; write '3'",
    ),
    Nasty(
        "dashes as minus signs",
        "who,n\nx,–12.5\ny,7.0\nz,\n",
        {"who": ["x", "y", "z"], "n": [-12.5, 7.0, None]},
    ),
    Nasty(
        "reals",
        "who;n\nx;R$ 1.200,50\ny;R$ 7,00\nz;\n",
        {"who": ["x", "y", "z"], "n": [1200.5, 7.0, None]},
    ),
    Nasty(
        "a unit that one value lacks",
        "who,weight\n" + "".join(f"w{i},{i + 60} kg\n" for i in range(11)) + "y,68\n",
        refused="line 13: column 'weight' holds '68', though nearly all of its values are in kg; "
        ".*--kind 'weight=categorical'",
    ),
    Nasty(
        "money with its sign in two places",
        "who,n\nx,$5.50\ny,6.50 $\n",
        refused=r"line 3: column 'n' has \$ before some values and after others",
    ),
    Nasty(
        "two currencies in two places",
        "who,n\nx,$5.50\ny,6.50 €\n",
        refused=r"money in several currencies \(\$, €\)",
    ),
    Nasty(
        "errors of a spreadsheet",
        "who,n\nx,1.5\ny,#DIV/0!\nz,#VALUE!\n",
        {"who": ["x", "y", "z"], "n": [1.5, None, None]},
    ),
    Nasty(
        "dashes for missing numbers",
        "who,n\nx,1.5\ny,-\nz,-\nw,2\n",
        refused="line 3: column 'n' holds '-' beside numbers; if it means missing, use --missing "
        "'-'",
    ),
    Nasty(
        "words in other letters for missing numbers",
        "who,n\nx,1.5\ny,none\nz,none\nw,2\n",
        refused="line 3: column 'n' holds 'none' beside numbers",
    ),
    Nasty(
        "a title and a blank row of as many columns",
        "Sales of 2020,,\n,,\nid,n,m\nx,1,2\ny,2,3\n",
        refused="looks like a title; skip it with --skip-rows 2",
    ),
    Nasty(
        "blank and equal names over money",
        ";Betrag;Betrag;Wort\n1;1.200,50 €;1,00 €;x\n2;1,00 €;;y\n",
        {
            "x0": [1, 2],
            "Betrag": [1200.5, 1.0],
            "Betrag (2)": [1.0, None],
            "Wort": ["x", "y"],
        },
    ),
    Nasty(
        "versions of software",
        "what,version\na,1.2.3\nb,1.10.2\nc,2.33.41\n",
        {"what": ["a", "b", "c"], "version": ["1.2.3", "1.10.2", "2.33.41"]},
    ),
    Nasty(
        "rows that end with separators",
        "what,n\na,1,,\nb,2,,\n",
        refused="line 2: the line ends with 2 separators more than the first; remove them",
    ),
    Nasty("a document of JSON", '[{"a": 1},\n {"a": 2}]\n', refused="is JSON, not a table of text"),
    Nasty(
        "a page of a website",
        "<!DOCTYPE html>\n<html><body>Log in</body></html>\n",
        refused="is a web page, not a table of text",
    ),
    Nasty(
        "UTF-16 without a mark",
        "name,n\nx,1\ny,2\n",
        refused="looks like UTF-16; use --encoding utf-16-le",
        encoding="utf-16-le",
    ),
    Nasty(
        "columns between blanks",
        "name   n  size\nx      1  2.5\ny     20  3.5\n",
        refused="has blanks between its values; save it with commas or tabs",
    ),
    Nasty(
        "one column between blanks with numbers, one of which is missing",
        "name n\nx 1\ny NA\n",
        refused="has blanks between its values",
    ),
    Nasty(
        "a column of texts of as many words as its name",
        "sample code\nsoil A1\nsoil B2\nwater C\n",
        {"sample code": ["soil A1", "soil B2", "water C"]},
    ),
    Nasty(
        "words in small and capital letters",
        "who,smokes\nx,yes\ny,Yes\nz,NO\nw,no\n",
        {"who": ["x", "y", "z", "w"], "smokes": ["yes", "Yes", "NO", "no"]},
        told="'smokes' has values that differ only in capital letters, such as 'NO' and 'no'",
    ),
    Nasty(
        "the separator in Excel's first line",
        "sep=;\nname;x\na;1,5\nb;\n",
        {"name": ["a", "b"], "x": [1.5, None]},
    ),
    Nasty(
        "limits of detection",
        "sample,crp\na,<0.5\nb,12.3\nc,>100\nd,7.1\n",
        refused="line 2: column 'crp' holds '<0.5' beside numbers; write a number instead",
    ),
    Nasty(
        "significant values",
        "sample,p\na,0.05*\nb,0.001**\nc,0.2\n",
        refused="line 2: column 'p' holds '0.05[*]' beside numbers; write a number instead",
    ),
    Nasty(
        "visits, of which the last level has no end",
        "who,n\na,1\nb,2\nc,>2\nd,\n",
        {"who": ["a", "b", "c", "d"], "n": ["1", "2", ">2", None]},
    ),
    Nasty(
        "a second line of questions",
        "q1,q2\nHow old are you?,Do you smoke?\n34,yes\n45,no\n",
        refused="line 2: column 'q1' holds 'How old are you.' above its values, as a second line",
    ),
    Nasty(
        "a second line of units",
        "t,x,word\ns,°C,\n1,20.5,a\n2,20.6,b\n",
        refused="line 2: column 't' holds 's' above its values",
    ),
    Nasty(
        "a row of totals",
        "Ort;Umsatz\nA;1.234,00\nB;877,50\nTotal;2.111,50\n",
        refused="line 4: the last row, 'Total', is the sum of the others in column 'Umsatz'",
    ),
    Nasty(
        "a row that only seems to be of totals",
        "Ort;Menge\nA;3\nB;\nTotal;99\n",
        {"Ort": ["A", "B", "Total"], "Menge": [3, None, 99]},
        told="the last row, 'Total', may sum up the others",
    ),
    Nasty(
        "joined files",
        "a,b\n1,2\n3,4\na,b\n5,6\n",
        refused="line 4: the line repeats the column names",
    ),
    Nasty(
        "joined files with marks",
        "a,b\r\n1,2\r\n\ufeff3,4\r\n",
        refused="line 3: the line begins with a byte order mark",
    ),
    Nasty(
        "plus and minus signs at the end",
        "who;n\nx;1.234,56-\ny;12,00+\nz;\n",
        {"who": ["x", "y", "z"], "n": [-1234.56, 12.0, None]},
    ),
    Nasty(
        "debit and credit",
        "who,n\nx,12.50 DR\ny,7.00 CR\n",
        refused=r"line 3: column 'n' looks like numbers in several units \(CR, DR\); convert them",
    ),
    Nasty(
        "grams and kilograms",
        "who,n\nx,900 g\ny,1 kg\n",
        refused=r"line 3: column 'n' looks like numbers in several units \(g, kg\)",
    ),
    Nasty(
        "singular and plural of a unit",
        "who,n\nx,1 bed\ny,2 beds\nz,\nw,1 bed\nv,12 beds\n",
        {"who": ["x", "y", "z", "w", "v"], "n": [1, 2, None, 1, 12]},
        told="'n' is in beds",
    ),
    Nasty(
        "numbers of houses",
        "who,n\nx,12\ny,14a\nz,\n",
        {"who": ["x", "y", "z"], "n": ["12", "14a", None]},
    ),
    Nasty(
        "several words for missing numbers",
        "who;n\nx;1,5\ny;-\nz;k.A.\nw;2\n",
        refused="line 3: column 'n' holds '-' beside numbers; if it means missing",
    ),
    Nasty(
        "telephone numbers",
        "who,n\nx,+41791234567\ny,+41441234567\n",
        {"who": ["x", "y"], "n": ["+41791234567", "+41441234567"]},
    ),
    Nasty(
        "codes that Excel takes for powers of ten",
        "who,n\nx,1e5\ny,2e7\n",
        refused="line 2: column 'n' holds '1e5', a number or a code; use --kind 'n=gaussian' or",
    ),
    Nasty(
        "several words for yes",
        "who,b\nx,Yes\ny,No\nz,True\nw,1\n",
        {"who": ["x", "y", "z", "w"], "b": ["Yes", "No", "True", "1"]},
        told="'b' has several words for yes and no: 1, No, True, Yes",
    ),
    Nasty(
        "a name that is also a value",
        ";weeks;premie;weight\n1;37;full term;6,96\n2;29;premie;1,63\n3;;full term;8,86\n",
        {
            "x0": [1, 2, 3],
            "weeks": [37, 29, None],
            "premie": ["full term", "premie", "full term"],
            "weight": [6.96, 1.63, 8.86],
        },
    ),
    Nasty(
        "words with the numbers of their codes",
        "who,insured\nx,1. Yes\ny,2. No\nz,1. Yes\n",
        {"who": ["x", "y", "z"], "insured": ["1. Yes", "2. No", "1. Yes"]},
    ),
]
