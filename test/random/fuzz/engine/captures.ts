import { readdirSync, readFileSync } from 'node:fs';

const folder = new URL('../../../support/fixtures/captures/', import.meta.url);

/** The texts of all captures whose names match. Throws when none does: a corpus of nothing would prove nothing. */
export function readCaptures(pattern: RegExp): readonly string[] {
  const names = readdirSync(folder).filter((name) => pattern.test(name));
  if (names.length === 0) throw new TypeError(`no capture is named like ${String(pattern)}`);
  return names.map((name) => readFileSync(new URL(name, folder), 'utf8'));
}
