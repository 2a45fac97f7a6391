"""Follow-ups to questions about XQuAD's paragraphs, made by hand: what was asked before, its answer, the follow-up."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FollowUp:
    """A follow-up and the paragraph that answers it."""

    before: str
    answer: str
    question: str
    paragraph: str


SAME_PASSAGE = (
    FollowUp("What year did Tesla die?", "1943", "And where did he live for much of his life?", "p15"),
    FollowUp(
        "What proclamation abolished protestantism in France?",
        "Edict of Fontainebleau",
        "When was it declared?",
        "p50",
    ),
    FollowUp("When did Carl Wilhelm Scheele discover oxygen?", "1773", "And Priestley?", "p60"),
    FollowUp(
        "Which name is also used to describe the Amazon rainforest in English?",
        "Amazonia",
        "How many nations does it span?",
        "p80",
    ),
    FollowUp(
        "What was the first recorded settlement in what became Newcastle?",
        "Pons Aelius",
        "What was its estimated population around the 2nd century?",
        "p110",
    ),
    FollowUp(
        "Who was the V&A's first director?", "Henry Cole", "What was the museum originally called?", "p115"
    ),
    FollowUp(
        "What was the tribe of the woman Temüjin married when he was around 16?",
        "the Onggirat",
        "Who kidnapped her?",
        "p125",
    ),
    FollowUp(
        "After the Peterloo massacre, which poet wrote The Massacre of Anarchy?",
        "Percy Shelley",
        "What type of protest was it the first of?",
        "p140",
    ),
    FollowUp("Which US city is Harvard University in?", "Boston", "How large is its endowment?", "p155"),
    FollowUp(
        "Which Florida city has the biggest population?",
        "Jacksonville",
        "What is its ranking in the United States?",
        "p160",
    ),
    FollowUp(
        "What enemy of Doctor Who is also a Time Lord?",
        "the Master",
        "What happens when his body is mortally damaged?",
        "p170",
    ),
    FollowUp("Who is the chair of the IPCC?", "Hoesung Lee", "And the vice-chair?", "p190"),
    FollowUp("Who is the chair of the IPCC?", "Hoesung Lee", "What nationality is he?", "p190"),
    FollowUp(
        "What is the only divisor besides 1 that a prime number can have?",
        "itself",
        "And what are numbers with more of them called?",
        "p200",
    ),
    FollowUp("How was the Rhine Gorge formed?", "erosion", "Between which cities does it lie?", "p205"),
    FollowUp(
        "Where was an elected assembly to be set up under the Scotland Act of 1978?",
        "Edinburgh",
        "What share of the votes was in favour?",
        "p210",
    ),
    FollowUp("Where was Friedrich Ratzel born?", "Germany", "And Halford Mackinder?", "p220"),
    FollowUp(
        "When did the movement that would become The United Methodist Church begin?",
        "mid-18th century",
        "Why were its students called so?",
        "p225",
    ),
    FollowUp(
        "How long did the fighting last in the Seven Years War?",
        "six years",
        "When was Montreal captured in it?",
        "p230",
    ),
    FollowUp(
        "Who provided a philosophical discussion of force?",
        "Aristotle",
        "How many elements did he believe in?",
        "p235",
    ),
    FollowUp("Where was the Summer Theatre located?", "Saxon Garden", "How long was it in operation?", "p5"),
    FollowUp("How many points did the Panthers defense surrender?", "308", "Who led them in sacks?", "p0"),
    FollowUp(
        "When did Luther's writings spread to France, England and Italy?",
        "1519",
        "Who came to hear him speak?",
        "p30",
    ),
    FollowUp(
        "What is Sky+ HD material broadcast using?", "MPEG-4", "And the standard definition ones?", "p40"
    ),
    FollowUp(
        "What political party is strongest in Melbourne's working class suburbs?",
        "Australian Labor Party",
        "And in the affluent ones?",
        "p45",
    ),
    FollowUp(
        "What is the usual source of heat for boiling water in a steam engine?",
        "burning combustible materials",
        "Where does it burn?",
        "p55",
    ),
    FollowUp(
        "When did Syria and Egypt launch a surprise attack on Israel?",
        "October 6, 1973",
        "How much more did oil cost afterwards?",
        "p65",
    ),
    FollowUp(
        "Who led the committee established by Seamans?",
        "Nicholas E. Golovin",
        "When was it established?",
        "p70",
    ),
    FollowUp(
        "How did the principal treaties of the European Union begin?",
        "with common rules for coal and steel",
        "When did Spain join?",
        "p75",
    ),
    FollowUp(
        "How much can ctenophores eat in one day?",
        "ten times their own weight",
        "How many species of them are there?",
        "p85",
    ),
    FollowUp(
        "What is another name for the west side of Fresno?",
        "Southwest Fresno",
        "Which community is it the center of?",
        "p90",
    ),
    FollowUp(
        "What does each packet include in connectionless mode?",
        "complete addressing information",
        "How are they routed?",
        "p95",
    ),
    FollowUp(
        "What was the black death originally blamed on?",
        "the heavens",
        "Who was the report on it written for?",
        "p100",
    ),
    FollowUp(
        "Who oversees a pharmacy technician in the UK?",
        "other senior pharmacy technicians",
        "With which body must they register?",
        "p130",
    ),
    FollowUp(
        "What can result from disorders of the immune system?",
        "autoimmune diseases",
        "When is it less active?",
        "p135",
    ),
    FollowUp(
        "What are private secondary schools in Germany called?",
        "Ergänzungsschulen",
        "How are they funded?",
        "p150",
    ),
    FollowUp(
        "What are the first buildings the University of Chicago built known as?",
        "the Main Quadrangles",
        "Who helped design them?",
        "p175",
    ),
    FollowUp(
        "How long ago did cyanobacteria enter a cell?",
        "around a billion years ago",
        "What kind of cell was that?",
        "p195",
    ),
)
"""Answered by the passage that answers the question before."""

OTHER_PASSAGE = (
    FollowUp("What year did Tesla die?", "1943", "With whom did he found a company in 1886?", "p16"),
    FollowUp(
        "Where did Tesla live for much of his life?",
        "New York hotels",
        "When did he get a Nobel Prize bid?",
        "p18",
    ),
    FollowUp(
        "What was Tesla's reputation in popular culture?",
        "mad scientist",
        "What did he think about religion?",
        "p19",
    ),
    FollowUp(
        "How many square kilometers of rainforest does the Amazon basin cover?",
        "5,500,000",
        "How much of it was lost by 1991?",
        "p81",
    ),
    FollowUp(
        "Which name is also used to describe the Amazon rainforest?",
        "Amazonia",
        "When was the drought there?",
        "p84",
    ),
    FollowUp(
        "How many nations control the Amazon?",
        "nine",
        "What share of the world's carbon does it store?",
        "p83",
    ),
    FollowUp(
        "How much can ctenophores eat in one day?",
        "ten times their own weight",
        "Why are their fossils so rare?",
        "p88",
    ),
    FollowUp(
        "How many species of ctenophores have been validated?",
        "100-150",
        "What are their hairs called?",
        "p87",
    ),
    FollowUp(
        "What was the black death originally blamed on?",
        "the heavens",
        "How many did it kill in Algiers?",
        "p104",
    ),
    FollowUp(
        "What was the black death originally blamed on?", "the heavens", "And in Paris in 1466?", "p103"
    ),
    FollowUp("Which US city is Harvard in?", "Boston", "Where is its stadium?", "p156"),
    FollowUp(
        "What is the size of Harvard's endowment?",
        "$37.6 billion",
        "What share of applicants does it admit?",
        "p158",
    ),
    FollowUp(
        "What enemy of Doctor Who is also a Time Lord?", "the Master", "Who wrote most of the music?", "p173"
    ),
    FollowUp(
        "How often does Doctor Who travel by himself?", "rarely", "And who played him on stage?", "p174"
    ),
    FollowUp(
        "What does Doctor Who do when mortally damaged?",
        "regenerate",
        "What is the name of his granddaughter?",
        "p171",
    ),
    FollowUp("Who is the chair of the IPCC?", "Hoesung Lee", "What did they apologize for?", "p192"),
    FollowUp(
        "How was the Rhine Gorge formed?", "erosion", "Which way did the river flow in the ice age?", "p207"
    ),
    FollowUp(
        "When did Luther's writings spread to France?", "1519", "In what language were his last words?", "p34"
    ),
    FollowUp(
        "Who went to Wittenberg to hear Luther speak?",
        "Students",
        "Who made the pictures in his Bible?",
        "p32",
    ),
    FollowUp("When did Carl Wilhelm Scheele discover oxygen?", "1773", "Who first made it liquid?", "p61"),
    FollowUp(
        "What was the first recorded settlement in what became Newcastle?",
        "Pons Aelius",
        "How many universities does it have now?",
        "p114",
    ),
    FollowUp(
        "How long did the fighting last in the Seven Years War?",
        "six years",
        "When did England declare it?",
        "p234",
    ),
    FollowUp(
        "What party is strongest in Melbourne's affluent areas?",
        "Liberal Party",
        "When did the state enact its constitution?",
        "p46",
    ),
    FollowUp(
        "When did Victoria enact its constitution?", "1975", "When will the Ford plants there close?", "p47"
    ),
    FollowUp(
        "What proclamation abolished protestantism in France?",
        "Edict of Fontainebleau",
        "Which poet descended from those who fled?",
        "p54",
    ),
    FollowUp(
        "How many Huguenots fled France by the 1700s?",
        "500,000",
        "Which town were they granted in Virginia?",
        "p51",
    ),
    FollowUp(
        "What is the usual source of heat for a steam engine?",
        "burning combustible materials",
        "What instrument examines its performance?",
        "p56",
    ),
    FollowUp(
        "Where was the Summer Theatre in Warsaw located?",
        "Saxon Garden",
        "How many people lived there in 1901?",
        "p7",
    ),
    FollowUp("What was Warsaw's population in 1901?", "711,988", "When did its stock exchange reopen?", "p9"),
    FollowUp(
        "How long was Warsaw's Summer Theatre in operation?",
        "1870 to 1939",
        "And when did the football club win the championship?",
        "p6",
    ),
)
"""On the same subject, answered by another passage."""

OTHER_SUBJECT = (
    FollowUp("When was Montreal captured?", "1760", "Which Florida city has the biggest population?", "p160"),
    FollowUp("Who led the Panthers in sacks?", "Kawann Short", "How was the Rhine Gorge formed?", "p205"),
    FollowUp(
        "How much can ctenophores eat in one day?",
        "ten times their own weight",
        "Who is the chair of the IPCC?",
        "p190",
    ),
    FollowUp(
        "Where did Tesla live for much of his life?",
        "New York hotels",
        "What is the fundamental theorem of arithmetic about?",
        "p200",
    ),
    FollowUp(
        "When was Kublai's administration running out of money?",
        "after 1279",
        "What does the CPI scale measure?",
        "p185",
    ),
    FollowUp(
        "Why is the second timeline needed?",
        "compresses the most recent era",
        "Who helped Temüjin rescue his wife from the Merkits?",
        "p125",
    ),
    FollowUp(
        "What colors was the 2001 ABC logo?", "black-and-yellow", "When does immunodeficiency occur?", "p135"
    ),
    FollowUp(
        "Who provided a philosophical discussion of force?",
        "Aristotle",
        "How many square kilometers of rainforest does the Amazon basin cover?",
        "p80",
    ),
)
"""Stands alone; what was asked before has nothing to do with it."""
