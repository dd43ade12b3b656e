"""What neither num2words nor the CLDR has: how people of a language say signs, times, fractions and abbreviations.

Keys are Whisper's codes of languages. Words that mean the same are separated by "|".
"""

from __future__ import annotations

UNITS = {
    "length-kilometer": "km км किमी",
    "length-meter": "m м",
    "length-centimeter": "cm см",
    "length-millimeter": "mm мм",
    "mass-kilogram": "kg кг किग्रा",
    "mass-gram": "g г",
    "mass-milligram": "mg мг",
    "volume-liter": "l л",
    "volume-milliliter": "ml мл",
    "duration-hour": "h ч std",
    "duration-minute": "min мин",
    "duration-second": "s с sek sec",
    "speed-kilometer-per-hour": "km/h км/ч kmh km/u km/s",
    "temperature-celsius": "°c °с",
    "angle-degree": "°",
    "concentr-percent": "% ٪",
    "concentr-permille": "‰",
    "digital-gigabyte": "gb гб go",
    "digital-megabyte": "mb мб mo",
    "frequency-hertz": "hz гц",
    "frequency-kilohertz": "khz кгц",
    "power-watt": "w вт",
    "power-kilowatt": "kw квт",
    "area-square-meter": "m2 м2 m^2 м^2",
    "area-square-kilometer": "km2 км2 km^2 км^2",
}
"""Names of the CLDR and their symbols. "km/s" is Turkish for an hour; few measure kilometers per second."""
SHORT_UNITS = {
    "mass-kilogram": {"ja": "キロ", "es": "kilos|kilo", "pt": "quilos|quilo", "fr": "kilos|kilo", "de": "kilo",
                      "ko": "킬로", "it": "chili|chilo|chilogrammi", "nl": "kilo", "sv": "kilo", "tr": "kilo",
                      "ru": "кило|килограммов", "vi": "ki lô gam|ký|cân"},
    "mass-gram": {"ru": "год|года|году|годом"},
    "length-kilometer": {"ja": "キロ", "ko": "킬로", "vi": "ki lô mét|cây số", "pt": "quilómetros|quilómetro",
                         "hi": "किलोमीटर"},
    "length-centimeter": {"ja": "センチ", "ko": "센티"},
    "speed-kilometer-per-hour": {"de": "stundenkilometer", "ja": "キロ", "vi": "ki lô mét một giờ|ki lô mét trên giờ",
                                 "fr": "kilomètres heure|kilomètres à l'heure", "it": "chilometri all'ora",
                                 "pt": "quilómetros por hora"},
    "temperature-celsius": {"ja": "度", "ko": "도", "vi": "độ|độ c", "es": "grados centígrados"},
    "concentr-percent": {"ar": "في المئه|بالمئه", "ko": "퍼센트|프로", "vi": "phần trăm", "it": "per cento",
                         "hi": "फ़ीसदी"},
    "duration-hour": {"es": "horas|hora", "pt": "horas|hora"},
}  # fmt: skip
"""As people say them, beside the names of the CLDR."""
CURRENCIES = {
    "€": "EUR", "$": "USD", "us$": "USD", "£": "GBP", "¥": "JPY", "₹": "INR", "₽": "RUB", "₩": "KRW", "₺": "TRY",
    "tl": "TRY", "₫": "VND", "₴": "UAH", "r$": "BRL", "zł": "PLN", "kč": "CZK", "руб": "RUB", "грн": "UAH",
    "रु": "INR",
}  # fmt: skip
CURRENCIES |= {code.lower(): code for code in ("EUR", "USD", "GBP", "JPY", "CHF", "CNY", "INR", "PLN", "BRL", "MXN")}
"""By sign, or by the code that is written in its place."""
SHORT_CURRENCIES = {
    "TRY": {"tr": "lira"},
    "BRL": {"pt": "reais|real"},
    "RUB": {"ru": "рублей|рубля|рубль"},
    "USD": {"ja": "ドル", "ko": "달러", "tr": "dolar", "hi": "डॉलर", "zh": "美元", "es": "dólares|pesos"},
    "KRW": {"ko": "원"},
    "EUR": {"tr": "avro|euro"},
    "INR": {"hi": "रुपये|रुपए|रुपया"},
    "CNY": {"ja": "元"},
}
OF_MILLIONS = {"es": "de", "pt": "de", "fr": "d|de", "it": "di", "ca": "de", "ro": "de"}
"""Between a scale and its noun: cinco millones de euros."""

SIGNS = ("+", "-", "×", "÷", "=", "<", ">", "^", ",", ".", "@", "&")
"""The columns of :data:`SAID`; "^" with {} for its number, then the comma of a decimal, the dot of a name."""
SAID = {
    "de": "plus|und;minus;mal;geteilt durch|durch;gleich|ist gleich|ist;kleiner als|ist kleiner als"
    ";größer als|ist größer als;hoch {};komma|punkt;punkt;at|ät;und",
    "fr": "plus|et;moins;fois|multiplié par;divisé par|sur;égale|égal à|font;inférieur à|est inférieur à|plus petit que"
    ";supérieur à|est supérieur à|plus grand que;puissance {}|exposant {}|à la puissance {};virgule|point;point"
    ";arobase|at;et",
    "es": "más|y;menos;por;dividido por|dividido entre|entre;igual a|es igual a|son;menor que|es menor que"
    ";mayor que|es mayor que;elevado a {}|elevado a la {}|a la {};coma|punto|con;punto;arroba;y|con",
    "it": "più;meno;per;diviso;uguale|è uguale a|fa;minore di|è minore di;maggiore di|è maggiore di"
    ";alla {}|elevato a {}|elevato alla {};virgola|punto;punto;chiocciola|at;e",
    "pt": "mais;menos;vezes;dividido por;igual a|é igual a;menor que|é menor que|menor do que"
    ";maior que|é maior que|maior do que;elevado a {}|elevado à {}|à {};vírgula|ponto;ponto;arroba;e",
    "nl": "plus;min|minus;keer|maal;gedeeld door;is|is gelijk aan;kleiner dan|is kleiner dan;groter dan|is groter dan"
    ";tot de macht {}|tot de {};komma|punt;punt;apenstaartje|at;en",
    "sv": "plus;minus;gånger;delat med;lika med|är lika med;mindre än|är mindre än;större än|är större än"
    ";upphöjt till {}|upphöjt i {};komma|punkt;punkt;snabel a|at;och",
    "da": "plus;minus;gange;divideret med;lig med|er lig med;mindre end|er mindre end;større end|er større end"
    ";opløftet i {}|i {};komma|punktum;punktum;snabel a|at;og",
    "no": "pluss;minus;ganger;delt på;er lik|lik;mindre enn|er mindre enn;større enn|er større enn"
    ";opphøyd i {}|i {};komma|punktum;punktum;krøllalfa|at;og",
    "ru": "плюс;минус;умножить на|на;разделить на|делить на;равно|равняется;меньше|меньше чем;больше|больше чем"
    ";в степени {}|в {} степени;запятая|точка;точка;собака;и",
    "uk": "плюс;мінус;помножити на;поділити на;дорівнює;менше|менше ніж;більше|більше ніж"
    ";у степені {}|в степені {};кома|крапка;крапка;собака|равлик;і|та|й",
    "pl": "plus;minus;razy;podzielić przez;równa się;mniejsze niż|jest mniejsze niż;większe niż|jest większe niż"
    ";do potęgi {};przecinek|kropka;kropka;małpa;i",
    "tr": "artı;eksi;çarpı;bölü;eşittir|eşit;küçüktür|küçük;büyüktür|büyük;üzeri {}|üssü {};virgül|nokta;nokta;et;ve",
    "ja": "足す|たす|プラス;マイナス|引く|ひく;掛ける|かける;割る|わる;は|イコール;小なり|より小さい;大なり|より大きい"
    ";の {} 乗|{} 乗;点;ドット|点;アットマーク|アット;と|アンド",
    "ko": "더하기|플러스;마이너스|빼기;곱하기;나누기;는|은|이퀄;보다 작다;보다 크다;의 {} 제곱|의 {} 승;점;점|닷"
    ";골뱅이|앳;앤드|그리고",
    "vi": "cộng;âm|trừ;nhân;chia;bằng;nhỏ hơn|bé hơn;lớn hơn;mũ {};phẩy|chấm;chấm;a còng;và",
    "fi": "plus;miinus;kertaa;jaettuna;on|on yhtä kuin;pienempi kuin|on pienempi kuin;suurempi kuin|on suurempi kuin"
    ";potenssiin {};pilkku;piste;at|ät;ja",
    "cs": "plus;minus|mínus;krát;děleno;rovná se;menší než|je menší než;větší než|je větší než;na {};čárka|celá;tečka"
    ";zavináč;a",
    "th": "บวก;ลบ;คูณ;หาร;เท่ากับ;น้อยกว่า;มากกว่า;ยกกำลัง {};จุด;จุด;แอท;และ",
    "ar": "زائد;سالب|ناقص;ضرب|في;قسمة|على;يساوي;أصغر من;أكبر من;أس {};فاصلة;نقطة|دوت;آت;و",
    "hi": "प्लस|जोड़;माइनस|ऋण;गुणा;भाग;बराबर;से कम|से छोटा;से अधिक|से बड़ा;की घात {};दशमलव|पॉइंट;डॉट;ऐट|एट;और|एंड",
}
"""Elsewhere a sign is a word of its own."""
SQUARED = {
    "de": "quadrat|zum quadrat", "fr": "au carré|carré", "es": "al cuadrado", "it": "al quadrato", "pt": "ao quadrado",
    "nl": "kwadraat|in het kwadraat", "ru": "в квадрате", "uk": "у квадраті", "pl": "do kwadratu", "tr": "kare|karesi",
    "ko": "제곱|의 제곱", "sv": "i kvadrat", "hi": "का वर्ग|स्क्वायर",
}  # fmt: skip
ARTICLES = {"de": "der|die|das|dem|den|des", "nl": "de"}
"""Between a name and its number: Friedrich der Zweite."""

HOUR_WORDS = {
    "de": "uhr", "fr": "heures|heure", "es": "y|horas y|horas|con", "it": "e|ore e|ore", "pt": "e|horas e|horas|hora e",
    "nl": "uur", "sv": "och", "da": "og", "no": "og", "ca": "i", "ro": "și",
    "ja": "時", "ko": "시", "th": "นาฬิกา",
}  # fmt: skip
TO = {"de": "bis", "fr": "à", "es": "a", "it": "a", "pt": "a", "nl": "tot", "sv": "till", "ru": "до", "pl": "do"}
TO |= {"ja": "から", "ko": "에서", "tr": "ile"}
PAST = {
    15: {"fr": "{0} heures et quart", "es": "{0} y cuarto", "it": "{0} e un quarto", "de": "viertel nach {0}",
         "nl": "kwart over {0}", "hi": "सवा {0}"},
    30: {"fr": "{0} heures et demie", "es": "{0} y media", "it": "{0} e mezza", "pt": "{0} e meia", "de": "halb {1}",
         "nl": "half {1}", "sv": "halv {1}", "da": "halv {1}", "no": "halv {1}", "ja": "{0} 時 半", "ko": "{0} 시 반",
         "hi": "साढ़े {0}", "tr": "{0} buçuk", "ru": "половина {2}|половине {2}|пол{2}", "pl": "wpół do {2}"},
    45: {"fr": "{1} heures moins le quart", "es": "{1} menos cuarto", "it": "{1} meno un quarto", "hi": "पौने {1}",
         "de": "viertel vor {1}|dreiviertel {1}", "nl": "kwart voor {1}", "ru": "без четверти {1}",
         "pl": "za kwadrans {1}", "pt": "quinze para as {1}|um quarto para as {1}"},
}  # fmt: skip
"""Of an hour {0}; {1} is the next, {2} as an ordinal."""

ONE_AND_A_HALF = {
    "de": "eineinhalb|anderthalb", "nl": "anderhalf|anderhalve", "ru": "полтора|полторы", "uk": "півтора|півтори",
    "pl": "półtora|półtorej", "da": "halvanden|halvandet", "hi": "डेढ़",
}  # fmt: skip
AND_A_HALF = {
    "de": "{}einhalb", "nl": "{}ënhalf|{}enhalf|{} en een half|{} en een halve", "fr": "{} et demi|{} et demie",
    "es": "{} y medio|{} y media", "it": "{} e mezzo|{} e mezza", "pt": "{} e meio|{} e meia", "ru": "{} с половиной",
    "uk": "{} з половиною", "pl": "{} i pół", "tr": "{} buçuk", "sv": "{} och en halv|{} och ett halvt",
    "da": "{} og en halv|{} og et halvt", "no": "{} og en halv|{} og et halvt", "ko": "{} 반", "hi": "साढ़े {}",
    "vi": "{} rưỡi", "cs": "{} a půl",
}  # fmt: skip
FRACTIONS = {
    "de": "ein halb|halb|halbe|halber|halbes|halben;drittel;viertel;{}l",
    "fr": "un demi|demi|une demie;tiers;quart|quarts;{}",
    "es": "un medio|medio|media;tercio|tercios;cuarto|cuartos;{}",
    "it": "un mezzo|mezzo|mezza;terzo|terzi;quarto|quarti;{}",
    "pt": "um meio|meio|meia;terço|terços;quarto|quartos;{}",
    "nl": "een half|half|halve;derde;kwart|vierde;{}",
    "sv": "en halv|halv|halva|ett halvt;tredjedel|tredjedelar;fjärdedel|fjärdedelar;{}del|{}delar",
    "ru": "половина|одна вторая|половину;треть|третьих|трети;четверть|четверти|четвертых;{}",
    "pl": "pół|jedna druga|połowa;trzecia|trzecie;czwarta|czwarte;{}",
    "hi": "आधा|आधी|आधे;तिहाई;चौथाई;",
}
"""A half; the noun of thirds, of quarters, and of all others from their ordinal."""
BELOW_ABOVE = {"ja": "{1} 分 の {0}", "ko": "{1} 분의 {0}|{1}분의 {0}"}
"""Of languages that name what is below first. {0} is above."""

ORDINAL_MARKS = {
    "fr": "er|re|ère|ères|ers|e|es|ème|eme|èmes|nd|nde", "es": r"\.?[oa]|\.?er|ro|ra|do|da|to|ta|mo|ma|°",
    "it": "[oa]|°", "pt": r"\.?[oa]|°",
    "nl": "e|de|ste", "sv": ":a|:e", "ru": "-?(?:й|я|е|го|му|м|х|ый|ая|ое|ые)", "uk": "-?(?:й|а|е|го)",
    "ca": "r|n|t|è|a", "ko": r"\ ?번째",
    "tr": "'?(?:inci|ıncı|uncu|üncü|nci|ncı|ncu|ncü)", "hi": "वां|वाँ|वीं|वें|ला|रा|री|था",
}  # fmt: skip
STOP_ORDINALS = frozenset(
    ["de", "da", "no", "nn", "fi", "cs", "sk", "pl", "hu", "et", "hr", "sl", "sr", "is", "lv", "tr"]
)
"""Languages that write the third as "3."."""
YEAR_ORDINALS = frozenset(["ru", "uk", "pl", "cs", "be", "bg"])
"""In these a year is an ordinal, in whatever case the sentence wants."""

ABBREVIATIONS = {
    "de": "z. b.=zum beispiel|d. h.=das heißt|u. a.=unter anderem|usw=und so weiter|u. s. w.=und so weiter"
    "|bzw=beziehungsweise|dr=doktor|prof=professor|nr=nummer|hr=herr|fr=frau|ca=circa/zirka|st=sankt|str=straße"
    "|evtl=eventuell|ggf=gegebenenfalls|vgl=vergleiche|inkl=inklusive|abb=abbildung|tel=telefon|jh=jahrhundert"
    "|s=seite|v. chr.=vor christus|n. chr.=nach christus",
    "fr": "m=monsieur|mm=messieurs|mme=madame|mlle=mademoiselle|dr=docteur|pr=professeur|etc=et cetera/et caetera"
    "|p. ex.=par exemple|c.-à-d.=c'est-à-dire|st=saint|ste=sainte|no=numéro|n°=numéro|av=avenue|bd=boulevard"
    "|env=environ|p=page|ier=premier|cie=compagnie"
    "|av. j.-c.=avant jésus-christ|apr. j.-c.=après jésus-christ|tél=téléphone",
    "es": "sr=señor|sra=señora|srta=señorita|dr=doctor|dra=doctora|ud=usted|uds=ustedes|etc=etcétera"
    "|p. ej.=por ejemplo|núm=número|n.o=número|no=número|av=avenida|avda=avenida|ee. uu.=estados unidos|d=don"
    "|dña=doña|prof=profesor|sta=santa|sto=santo|pág=página|págs=páginas|aprox=aproximadamente|tel=teléfono"
    "|cía=compañía|a. c.=antes de cristo|d. c.=después de cristo|p. m.=pe eme|a. m.=a eme",
    "it": "sig=signor|sig.ra=signora|dott=dottor|dott.ssa=dottoressa|ecc=eccetera|prof=professor|pag=pagina"
    "|pagg=pagine|n=numero|n°=numero|ing=ingegner/ingegnere|avv=avvocato|ad es.=ad esempio|p. es.=per esempio|ca=circa"
    "|s=san|tel=telefono|a. c.=avanti cristo|d. c.=dopo cristo",
    "pt": "sr=senhor|sra=senhora|dr=doutor|dra=doutora|prof=professor|profa=professora|etc=et cetera"
    "|p. ex.=por exemplo|av=avenida|no=número|n.o=número|pág=página|sto=santo|sta=santa|d=dom/dona|tel=telefone"
    "|v. exa.=vossa excelência|a. c.=antes de cristo|d. c.=depois de cristo",
    "nl": "bijv=bijvoorbeeld|bv=bijvoorbeeld|d.w.z.=dat wil zeggen|dhr=de heer|mevr=mevrouw|enz=enzovoort|nr=nummer"
    "|o.a.=onder andere|a.u.b.=alstublieft|dr=dokter/doctor|st=sint|ca=circa|m.a.w.=met andere woorden|blz=bladzijde"
    "|incl=inclusief|t.o.v.=ten opzichte van|z.s.m.=zo snel mogelijk|v. chr.=voor christus|tel=telefoon",
    "ru": "no=номер|т. е.=то есть|т. д.=так далее|т. п.=тому подобное|т. к.=так как|г=год/года/году/город|гг=годы/годов"
    "|ул=улица|др=другие|им=имени|стр=страница|проф=профессор|напр=например|кв=квартира|пр=проспект|д=дом"
    "|тел=телефон|до н. э.=до нашей эры|коп=копеек/копейки/копейка",
    "sv": "t. ex.=till exempel|bl. a.=bland annat|d. v. s.=det vill säga|osv=och så vidare|kl=klockan"
    "|dr=doktor|nr=nummer|ca=cirka|tel=telefon",
    "da": "bl. a.=blandt andet|f. eks.=for eksempel|kl=klokken|osv=og så videre|nr=nummer|ca=cirka",
    "no": "bl. a.=blant annet|f. eks.=for eksempel|kl=klokken|osv=og så videre|nr=nummer|ca=cirka",
    "pl": "np=na przykład|itd=i tak dalej|itp=i tym podobne|tzn=to znaczy|tj=to jest|m. in.=między innymi|dr=doktor"
    "|prof=profesor|mgr=magister|ul=ulica|al=aleja|św=święty|nr=numer|r=roku|str=strona|godz=godzinie/godzina|tel=telefon"
    "|p. n. e.=przed naszą erą|ok=około",
    "tr": "dr=doktor|prof=profesör|av=avukat|vb=ve benzeri|vs=vesaire|no=numara|cad=cadde/caddesi|örn=örneğin"
    "|tel=telefon",
    "hi": "डॉ=डॉक्टर|प्रो=प्रोफेसर|कि. मी.=किलोमीटर",
    "ar": "د=دكتور",
}
"""Expansions of one short form are separated by a slash."""
STREETS = {"de": "straße", "nl": "straat"}
"""What "str." is at the end of a word: Hauptstr."""
