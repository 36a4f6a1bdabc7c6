/** Room for text, and colours that are told apart in light and in dark, also by those who see no red or green. */
const style = `text { font: 14px system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif; fill: #1f2328; stroke: none }
.page { fill: #ffffff; stroke: #d0d7de }
.title { font-weight: 600 } .small { font-size: 13px; fill: #59636e } .label { font-size: 13px } .strong { font-weight: 600; font-size: 13px }
.host { fill: #f6f8fa; stroke: #afb8c1; stroke-dasharray: 5 4 }
.process { fill: #ffffff; stroke: #59636e } .kernel { fill: #ddf4ff; stroke: #0969da } .object { fill: #fff8c5; stroke: #9a6700 }
.packet { stroke: #0969da; stroke-width: 2.5; fill: none } .reply { stroke: #0969da; stroke-width: 1.5; fill: none; stroke-dasharray: 2 4 }
.control { stroke: #9a6700; stroke-width: 1.5; fill: none; stroke-dasharray: 6 4 }
.head-packet, .head-reply { fill: #0969da } .head-control { fill: #9a6700 }
.vipnat { fill: #0969da } .haproxy { fill: #bc4c00 } .mark { stroke: #1f2328; stroke-width: 2 } .grid { stroke: #d0d7de }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc } .page { fill: #0d1117; stroke: #3d444d } .small { fill: #a8b3bf }
.host { fill: #151b23; stroke: #656c76 } .process { fill: #0d1117; stroke: #9198a1 }
.kernel { fill: #10233f; stroke: #58a6ff } .object { fill: #2b2412; stroke: #d29922 }
.packet, .reply { stroke: #58a6ff } .control { stroke: #d29922 } .head-packet, .head-reply { fill: #58a6ff } .head-control { fill: #d29922 }
.vipnat { fill: #4493f8 } .haproxy { fill: #f0883e } .mark { stroke: #f0f6fc } .grid { stroke: #3d444d } }`;

/** Pictures are this wide, and shown so. */
export const width = 800;

/** What a picture is called, and what somebody hears who does not see it. */
export interface Caption {
  readonly title: string;
  readonly description: string;
}

/** A picture of its own, with both colour schemes inside. More style can follow the common one. */
export function renderSvg(
  { title, description }: Caption,
  height: number,
  body: readonly string[],
  ownStyle = style,
): string {
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-labelledby="title desc">`,
    `<title id="title">${escape(title)}</title>`,
    `<desc id="desc">${escape(description)}</desc>`,
    `<style>${ownStyle}</style>`,
    `<rect class="page" x="0.5" y="0.5" width="${width - 1}" height="${height - 1}" rx="8"/>`,
    ...body,
    '</svg>',
    '',
  ].join('\n');
}

/** A line of text from a point on, in a class of the style. */
export function renderText(
  [x, y]: readonly [number, number],
  words: string,
  name = '',
  anchor: 'start' | 'middle' | 'end' = 'start',
): string {
  const place = anchor === 'start' ? '' : ` text-anchor="${anchor}"`;
  const kind = name === '' ? '' : ` class="${name}"`;
  return `<text x="${round(x)}" y="${round(y)}"${kind}${place}>${escape(words)}</text>`;
}

/** For text and attributes. */
export function escape(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');
}

/** Tenths of a pixel. */
export function round(value: number): number {
  return Math.round(value * 10) / 10;
}
