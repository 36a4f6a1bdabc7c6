import { createHash } from 'node:crypto';
import { toPrintable } from '../text.ts';

/** Text that is HTML already: it is put into other HTML as it is. */
export class Html {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** What a template takes: null is nothing, and a list is its items. */
type Value = Html | string | number | null | readonly Value[];

/**
 * Makes all HTML. Every value that is no HTML is escaped, because names and reasons come from whoever may write them. A value may be in text,
 * or in an attribute in double quotes, and nowhere else.
 */
export function markup(parts: TemplateStringsArray, ...values: readonly Value[]): Html {
  return new Html(parts.map((part, index) => part + toSafe(values[index] ?? null)).join(''));
}

function toSafe(value: Value): string {
  if (value === null) return '';
  if (value instanceof Html) return value.text;
  if (typeof value === 'object') return value.map(toSafe).join('');
  return toPrintable(String(value)).replaceAll(/[&<>"'`]/g, (character) => `&#${character.charCodeAt(0)};`);
}

/** How something is. The text next to a mark says the same. */
export type Tone = 'good' | 'doubtful' | 'bad' | 'plain';

const toneToPath: Readonly<Record<Tone, string>> = {
  ...{ good: 'M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13Z', doubtful: 'M8 1.5 15 14H1Z' },
  ...{ bad: 'M3 3h10v10H3Z', plain: 'M3 7h10v2H3Z' },
};

/** A state: a circle, a triangle, a square or a dash, and its text. */
export function printState(tone: Tone, text: string): Html {
  const mark = markup`<svg aria-hidden="true" viewBox="0 0 16 16"><path d="${toneToPath[tone]}"/></svg>`;
  return markup`<span class="state ${tone}">${mark}${text}</span>`;
}

/** A moment: the time of day, or the date where that is another one. In tables, a browser with JavaScript shows how long ago it was. */
export function printTime(date: Date, now: Date): Html {
  const [text, today] = [date.toISOString(), now.toISOString().slice(0, 10)];
  const shown = text.startsWith(today) ? text.slice(11, 19) : text.slice(0, 16).replace('T', ' ');
  return markup`<time datetime="${text.slice(0, 19)}Z">${shown} UTC</time>`;
}

/** A part of so much as a bar, for who sees it: the figure is next to it. */
export function printBar(part: number, whole: number): Html {
  const width = whole === 0 ? 0 : Math.round((100 * Math.min(part, whole)) / whole);
  const bars = markup`<rect width="100" height="6"/><rect class="fill" width="${width}" height="6"/>`;
  return markup`<svg class="bar" aria-hidden="true" viewBox="0 0 100 6" preserveAspectRatio="none">${bars}</svg>`;
}

/** Texts, each on a line of its own. */
export function printLines(texts: readonly Value[]): Html {
  return markup`${texts.map((text, at) => markup`${at === 0 ? null : markup`<br>`}${text}`)}`;
}

/** A row of a table. */
export interface Row {
  /** The first one names the row. */
  readonly cells: readonly Value[];
  /** Printed below the row, over all columns, where there is any. */
  readonly below?: readonly Value[];
}

/** A table for people. Numbers are to the right: their column begins with `>`. Without a row, it says what there is instead. */
export function printTable(
  caption: string,
  columns: readonly string[],
  rows: readonly Row[],
  none = '',
): Html {
  if (rows.length === 0) return none === '' ? markup`` : markup`<h2>${caption}</h2><p>${none}</p>`;
  const toClass = (index: number) => (columns[index]?.startsWith('>') === true ? 'number' : 'text');
  const titles = columns.map(
    (title, index) => markup`<th scope="col" class="${toClass(index)}">${title.replace('>', '')}</th>`,
  );
  const lines = rows.map(({ cells: [first = '', ...cells], below = [] }) => {
    const rest = cells.map((cell, index) => markup`<td class="${toClass(index + 1)}">${cell}</td>`);
    const more = markup`<tr class="below"><td colspan="${columns.length}">${printLines(below)}</td></tr>`;
    return markup`<tr><th scope="row">${first}</th>${rest}</tr>${below.length === 0 ? null : more}`;
  });
  const head = markup`<caption>${caption}</caption><thead><tr>${titles}</tr></thead>`;
  return markup`<table>${head}<tbody>${lines}</tbody></table>`;
}

/** The answer of a page: a headline, facts, and why. */
export function printAnswer(
  tone: Tone,
  text: string,
  facts: readonly Value[],
  why: readonly Value[] = [],
): Html {
  const list = markup`<ul class="facts">${facts.map((fact) => markup`<li>${fact}</li>`)}</ul>`;
  return markup`<h1>${printState(tone, text)}</h1>${list}<p class="why">${printLines(why)}</p>`;
}

/** What a page shows. */
export interface View {
  /** In the window's title: the answer in one line. */
  readonly title: string;
  /** Which program it is, and where. */
  readonly program: string;
  /** By their ids, from top to bottom; the first one is the answer. A browser replaces those that change. */
  readonly sections: Readonly<Record<string, Html>>;
}

/** The page of a view. */
export function printPage({ title, program, sections }: View, now: Date): string {
  const parts = Object.entries(sections).map(
    ([id, content], index) =>
      markup`<section id="${id}"${index === 0 ? new Html(' aria-live="polite"') : null}>${content}</section>`,
  );
  const head = markup`<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title><link rel="icon" href="data:,"><noscript><meta http-equiv="refresh" content="5"></noscript>
<style>${new Html(style)}</style>`;
  const header = markup`<p><b>vipnat</b> ${program}</p><p id="live" role="status">as of ${printTime(now, now)}</p>`;
  const main = markup`<main id="main" tabindex="-1">${parts}</main>`;
  return markup`<!doctype html><html lang="en"><head>${head}</head><body>
<a class="skip" href="#main">Skip to the content</a><header>${header}</header>${main}<script>${new Html(script)}</script></body></html>
`.text;
}

/** Wide enough for a table of addresses. Nothing scrolls sideways: long names break. */
const style = `
:root{color-scheme:light dark;--back:#fbfbfc;--card:#fff;--text:#1c2024;--dim:#5a6169;--line:#e4e7eb;--good:#146c43;--doubtful:#8a5300;--bad:#b42318;--fill:#4a7fc1}
@media (prefers-color-scheme:dark){:root{--back:#111418;--card:#191d22;--text:#e7eaee;--dim:#a0a8b2;--line:#2c333b;--good:#63cd97;--doubtful:#eab252;--bad:#ff9086;--fill:#6fa3e0}}
*{box-sizing:border-box}
body{margin:0;background:var(--back);color:var(--text);font:15px/1.5 system-ui,sans-serif;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
header,main{max-width:60rem;margin:0 auto;padding:0 1rem}
header{display:flex;flex-wrap:wrap;justify-content:space-between;gap:0 1rem;padding-top:1rem;color:var(--dim)}
header b{color:var(--text)}
main{padding-bottom:2rem}main:focus{outline:none}
section{margin-top:1rem;padding:1rem 1.25rem;background:var(--card);border:1px solid var(--line);border-radius:.5rem}
section:empty{display:none}h1,h2,p{margin:0}
h1,h2{line-height:1.3}h1{font-size:1.5rem;font-weight:650}h2{font-size:1rem;margin-bottom:.5rem}
.vip{color:var(--dim)}.answer+.answer{margin-top:1.25rem;padding-top:1.25rem;border-top:1px solid var(--line)}
.facts{display:flex;flex-wrap:wrap;gap:0 1.25rem;margin:.5rem 0 0;padding:0;list-style:none}
.why{color:var(--dim);margin:.5rem 0 0}
.state{display:inline-flex;align-items:baseline;gap:.45em;color:var(--dim)}
td .state{white-space:nowrap}.state svg{flex:none;width:.72em;height:.72em;fill:currentColor}
.state.good{color:var(--good)}.state.doubtful{color:var(--doubtful)}.state.bad{color:var(--bad);font-weight:600}
table{width:100%;border-collapse:collapse}table+table{margin-top:1.5rem}
caption{text-align:left;font-weight:650;padding-bottom:.4rem}
th,td{padding:.4rem .75rem .4rem 0;text-align:left;vertical-align:baseline;font-weight:inherit}
th:last-child,td:last-child{padding-right:0}
thead th{color:var(--dim);font-size:.8125rem;font-weight:500;overflow-wrap:normal;border-bottom:1px solid var(--line)}
tbody tr:not(.below){border-top:1px solid var(--line)}tbody tr:first-child{border-top:0}
.below td{padding-top:0;color:var(--dim);font-size:.875rem}
.number{text-align:right;white-space:nowrap}time{white-space:nowrap}
.bar{display:inline-block;width:4rem;height:.4rem;margin-left:.6rem;fill:var(--line);vertical-align:middle}.bar .fill{fill:var(--fill)}
ol{margin:0;padding:0;list-style:none}
ol li{display:grid;grid-template-columns:7.5rem 1fr;gap:.75rem;padding:.25rem 0}
ol time{color:var(--dim)}a{color:inherit}.skip{position:absolute;left:-99rem}.skip:focus{left:1rem;top:.5rem;padding:.25rem .5rem;background:var(--card)}
#live.lost{color:var(--bad);font-weight:600}
:focus-visible{outline:2px solid var(--fill);outline-offset:2px}
@media (max-width:40rem){section{padding:.9rem}.bar{display:none}ol li{grid-template-columns:1fr;gap:0}}
`;

const old = 'this may be out of date';

/**
 * Replaces the sections that changed, and counts how long ago times are. Without news for 12 s, it says so: what is old never passes for what is so
 * now. So it does where a connection ends, and no other one begins within 3 s. A window that nobody sees asks for nothing.
 */
const script = `
const find=id=>document.getElementById(id),live=find('live'),sections={};let source=null,lost=0,skew=0,heardAt=Date.now();
const say=(text,isLost)=>{live.className=isLost?'lost':'';if(live.textContent!==text)live.textContent=text};
const age=ms=>{const s=Math.max(0,Math.round(ms/1000)),m=Math.floor(s/60),two=n=>String(n).padStart(2,'0');
return s<60?s+' s':m<60?m+'m'+two(s%60)+'s':m<1440?Math.floor(m/60)+'h'+two(m%60)+'m':Math.floor(m/1440)+' d'};
const tick=()=>{document.querySelectorAll('table time,ol time').forEach(time=>{const text=age(Date.now()+skew-Date.parse(time.dateTime))+(time.closest('ol')?' ago':'');
if(!time.title)time.title=time.textContent;if(time.textContent!==text)time.textContent=text});
if(source&&Date.now()-heardAt>12000)say('No news: ${old}',true)};
const take=({data})=>{const news=JSON.parse(data);heardAt=Date.now();clearTimeout(lost);lost=0;skew=news.now-heardAt;if(news.title)document.title=news.title;
for(const [id,text] of Object.entries(news.sections)){if(sections[id]===text)continue;sections[id]=text;
const focus=document.activeElement.id,part=find(id);if(!part){location.reload();return}part.innerHTML=text;if(focus)find(focus)?.focus()}
say('Live');tick()};
const follow=()=>{source=new EventSource('live'+location.search);source.onmessage=take;
source.onerror=()=>{lost||=setTimeout(()=>say('Connection lost: ${old}',true),3000);if(source.readyState===2)setTimeout(()=>location.reload(),10000)}};
document.addEventListener('visibilitychange',()=>{source?.close();source=null;if(!document.hidden)follow()});
setInterval(tick,1000);if(!document.hidden)follow();
`;

const toSource = (text: string) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;

/** What keeps a page from loading or sending anything but its own changes, and other sites from showing it in a frame. */
export const pageHeaders: Readonly<Record<string, string>> = {
  'content-security-policy': [
    ...["default-src 'none'", `style-src ${toSource(style)}`, `script-src ${toSource(script)}`],
    ...[
      "connect-src 'self'",
      'img-src data:',
      "form-action 'self'",
      "base-uri 'none'",
      "frame-ancestors 'none'",
    ],
  ].join('; '),
  'referrer-policy': 'no-referrer',
};
