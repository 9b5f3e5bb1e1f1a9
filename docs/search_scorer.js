/* How the search of the site ranks pages (html_search_scorer of Sphinx, which puts this before its own script).

   Sphinx finds pages that have every word of a query, all with the same score. People ask in sentences, so here a page
   needs only some of the words: rare words count more than common ones, and words of a heading, above all of the title,
   more than words of the text. A page for a goal comes before the long pages that name everything. */
const FOLDERS = { "how-to/from-": 0.6, "how-to/": 1, "tutorials/": 1, "explanation/": 0.8, "reference/": 0.5, "": 0.4 };
const MEANT = { migrat: "come", mock: "doubl", fake: "doubl", github: "ci", cron: "nightli", guardrail: "check", human: "person",
  price: "budget", concurr: "parallel", upgrad: "chang", multimod: "imag", pdf: "imag", deploi: "releas" };

var Scorer = {
  objNameMatch: 11, objPartialMatch: 6, objPrio: { 0: 15, 1: 5, 2: -5 }, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2,
};

const rankPages = (searchTerms) => {
  const { terms, titleterms, docnames, filenames, titles, alltitles } = Search._index;
  const stemmer = new Stemmer();
  const pagesOf = (entry) => (entry === undefined ? [] : Array.isArray(entry) ? entry : [entry]);
  const words = new Set([...searchTerms].flatMap((word) => (MEANT[word] ? [word, MEANT[word]] : [word])));
  const weights = new Map();
  const texts = new Map();
  for (const word of words) {
    const pages = new Set([...pagesOf(terms[word]), ...pagesOf(titleterms[word])]);
    weights.set(word, Math.log(1 + docnames.length / (1 + pages.size)));
    for (const page of pages) texts.set(page, (texts.get(page) || 0) + weights.get(word));
  }
  const headings = new Map();  // page to its best heading: weight, anchor, title
  for (const [title, places] of Object.entries(alltitles)) {
    const plain = splitQuery(title.toLowerCase()).filter((word) => !stopwords.has(word));
    const stems = new Set(plain.map((word) => stemmer.stemWord(word)));
    const matched = [...words].filter((word) => stems.has(word));
    const weight = matched.reduce((sum, word) => sum + weights.get(word), 0) * Math.sqrt(matched.length / stems.size);
    for (const [page, anchor] of weight > 0 ? places : []) {
      const found = { weight: weight * (anchor === null ? 3 : 1.7), anchor, title };
      if (found.weight > (headings.get(page)?.weight || 0)) headings.set(page, found);
    }
  }
  const results = [];
  for (const page of new Set([...texts.keys(), ...headings.keys()])) {
    const folder = Object.keys(FOLDERS).find((prefix) => docnames[page].startsWith(prefix));
    const best = headings.get(page);
    const score = Math.round(10 * FOLDERS[folder] * ((texts.get(page) || 0) + (best?.weight || 0)));
    const anchor = best?.anchor ? `#${best.anchor}` : "";
    const title = anchor ? `${titles[page]} > ${best.title}` : titles[page];
    if (score && !docnames[page].startsWith("decisions/"))
      results.push([docnames[page], title, anchor, null, score, filenames[page], SearchResultKind.text]);
  }
  return results.sort((one, other) => other[4] - one[4]).slice(0, 30);
};

const useRanking = () => {
  Search.performTermsSearch = rankPages;
};
// Themes differ in which of the two scripts comes first; the search itself begins when the page is complete.
if (typeof Search === "undefined") document.addEventListener("DOMContentLoaded", useRanking);
else useRanking();
