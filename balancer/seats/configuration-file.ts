import { rename } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { notWritten, refuseForeignFile } from '../../lib/files/foreign-file.ts';
import { readIfThere } from '../../lib/files/optional-file.ts';
import { replaceFile } from '../../lib/files/replace-file.ts';
import { seatsMark } from '../../lib/keepalived/find.ts';
import { VipnatError } from '../../lib/text/errors.ts';
import { type SeatFiles } from '../../lib/keepalived/seat-files.ts';

/** What keepalived finds wrong with a file; null when it takes it. Rejects where no keepalived can be asked. */
export type TestConfiguration = (path: string) => Promise<string | null>;

/** What became of a new configuration. */
export type Replacement =
  | { readonly outcome: 'replaced' }
  /** The same, but no keepalived is installed here that could check it. */
  | { readonly outcome: 'unchecked'; readonly reason: VipnatError }
  /** keepalived takes no such file: the one before stays. */
  | { readonly outcome: 'refused'; readonly words: string };

/** The text of keepalived.conf; null where there is none. Rejects as readIfThere does. */
export async function readConfigurationFile({ file }: SeatFiles): Promise<string | null> {
  return await readIfThere(file, { maxBytes: maxFileBytes, refusesLink: true });
}

/** 65,536 IPv6 addresses have 3 MB. */
const maxFileBytes = 16_777_216;

/**
 * Replaces keepalived.conf, after keepalived itself has read the new one: whole or not at all. One that it refuses is kept aside.
 * Whatever is killed meanwhile, the file that keepalived reads has passed the check, or is the one before.
 * @throws VipnatError OUTPUT_NOT_WRITTEN, TOOL_TIMED_OUT and other errors of starting keepalived
 */
export async function replaceConfigurationFile(
  { file, refusedFile }: SeatFiles,
  text: string,
  test: TestConfiguration,
): Promise<Replacement> {
  await refuseForeignFile(file, seatsMark, 'vipnat balancer');
  const draft = join(dirname(file), `.${basename(file)}.new`);
  try {
    await replaceFile(draft, text, { isFolderOurs: true });
    const checked = await check(draft, test);
    await rename(draft, checked.outcome === 'refused' ? refusedFile : file);
    return checked;
  } catch (error) {
    throw error instanceof VipnatError ? error : notWritten(file, error);
  }
}

async function check(draft: string, test: TestConfiguration): Promise<Replacement> {
  try {
    const words = await test(draft);
    return words === null ? { outcome: 'replaced' } : { outcome: 'refused', words };
  } catch (error) {
    if (!(error instanceof VipnatError) || error.code !== 'TOOL_MISSING') throw error;
    return { outcome: 'unchecked', reason: error };
  }
}
