import { type IncomingMessage, type ServerResponse } from 'node:http';
import { type Answer, type Page, toText } from './page.ts';

/** Answers one question, whatever it is. Never rejects. */
export async function answer(
  pages: ReadonlyMap<string, Page>,
  { method = '', url = '' }: Pick<IncomingMessage, 'method' | 'url'>,
  response: ServerResponse,
): Promise<void> {
  const { status, type, text } = await findAnswer(pages, method, url);
  if (status === 405) response.setHeader('allow', 'GET, HEAD');
  response.writeHead(status, {
    'content-type': type,
    'content-length': Buffer.byteLength(text),
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
  });
  // Node leaves out the text where HEAD asks.
  response.end(text);
}

async function findAnswer(pages: ReadonlyMap<string, Page>, method: string, url: string): Promise<Answer> {
  if (method !== 'GET' && method !== 'HEAD') return toText(405, 'only GET and HEAD are allowed');
  const [path = '', query] = url.split('?');
  const page = pages.get(path);
  if (page === undefined) return toText(404, `no such page. The pages are ${[...pages.keys()].join(', ')}`);
  try {
    return await page(new URLSearchParams(query));
  } catch (error) {
    return toText(500, `${path} failed: ${describe(error)}`);
  }
}

/** One line of it. */
function describe(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return text.replaceAll(/\s+/g, ' ');
}
