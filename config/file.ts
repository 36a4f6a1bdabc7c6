import { createReadStream } from 'node:fs';
import { readDocument } from './document.ts';
import { type SourceReading } from './setting.ts';

/** Far more than all options with hundreds of endpoints need; a longer file is the wrong file. */
const maxBytes = 64 * 1024;

/** Reads the settings of the file that --config names; a pipe works too. Whatever is wrong is told as a problem. */
export async function readConfigFile(path: string): Promise<SourceReading> {
  try {
    const bytes = await readBytes(path);
    if (bytes.length > maxBytes) return refuse(`--config ${path} is longer than 64 KiB: not a vipnat file`);
    return readDocument(new TextDecoder('utf-8', { fatal: true }).decode(bytes), path);
  } catch (error) {
    return refuse(`--config ${path} cannot be read: ${explain(error)}`);
  }
}

async function readBytes(path: string): Promise<Buffer> {
  const chunks: Buffer[] = [];
  // `end` is inclusive: one byte more than allowed is read, and no more of an endless one.
  for await (const chunk of createReadStream(path, { end: maxBytes })) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

function refuse(problem: string): SourceReading {
  return { settings: new Map(), problems: [{ text: problem, line: 0 }] };
}

function explain(error: unknown): string {
  const { code = '', message } = error as NodeJS.ErrnoException;
  return reasons[code] ?? message;
}

const reasons: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file',
  EISDIR: 'it is a folder',
  EACCES: 'no permission',
  ERR_ENCODING_INVALID_ENCODED_DATA: 'it is not UTF-8 text',
};
