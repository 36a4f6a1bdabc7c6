import * as z from 'zod/mini';
import { quoteText } from '../../../config/setting.ts';
import { duration } from '../../../config/values.ts';

/** The own switches of `vipnat doctor`, checked. */
export interface DoctorOptions {
  /** Print JSON. */
  readonly json: boolean;
  /** Also list what is well. */
  readonly all: boolean;
  /** For how long VRRP adverts are listened to, in milliseconds: 0 to 60,000. */
  readonly captureMs: number;
}

/** The same as words of the command line. */
export interface DoctorWords {
  readonly json?: boolean;
  readonly all?: boolean;
  readonly capture?: string;
}

/** Three adverts a second apart, as keepalived sends them unless told otherwise. */
const defaultCaptureMs = 3500;

const capture = duration(0, 60_000);

/** Reads the switches; one line for each problem, and then the defaults. */
export function readDoctorOptions({ json = false, all = false, capture: text }: DoctorWords): {
  readonly options: DoctorOptions;
  readonly problems: readonly string[];
} {
  const options = { json, all, captureMs: defaultCaptureMs };
  if (text === undefined) return { options, problems: [] };
  const result = z.safeParse(capture, text);
  if (result.success) return { options: { ...options, captureMs: result.data }, problems: [] };
  const problems = result.error.issues.map(
    ({ message }) => `--capture ${quoteText(text)} ${message}. Example: --capture 5s`,
  );
  return { options, problems };
}
