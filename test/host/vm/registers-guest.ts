/** Runs in a machine: three processes compute at the same time, and each has to keep its registers. */
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';

const program = fileURLToPath(new URL('computation.ts', import.meta.url));
const start = async (index: number) =>
  (await promisify(execFile)(process.execPath, [program, String(index)])).stdout;
const report = await Promise.all([0, 1, 2].map(start));
writeFileSync(`${process.env['GUEST_FOLDER'] ?? ''}/report.json`, JSON.stringify(report));
