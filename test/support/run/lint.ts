import { startChild } from './children.ts';
import type { FailedTest, JestResult } from './jest-run.ts';

/** ESLint takes longer than all others together, and one processor. */
const slow = 'eslint';
const others = ['types', 'format', 'folders', 'house', 'shell', 'prose'];

/** Runs all checks of scripts/lint. What a check prints is shown where it failed. */
export async function runLint(say: (line: string) => void): Promise<JestResult> {
  const runOthers = async () => {
    const results: (FailedTest | null)[] = [];
    for (const name of others) results.push(await runCheck(name, say));
    return results;
  };
  const [eslint, rest] = await Promise.all([runCheck(slow, say), runOthers()]);
  const results = [...rest, eslint];
  const failures = results.filter((result) => result !== null);
  return { passed: results.length - failures.length, skipped: 0, failures };
}

function runCheck(name: string, say: (line: string) => void): Promise<FailedTest | null> {
  const child = startChild(['scripts/lint', name], { stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream?.on('data', (text: Buffer) => (output += text.toString()));
  return new Promise((resolve) => {
    child.on('close', (status) => {
      if (status === 0) {
        resolve(null);
        return;
      }
      say(`${output}lint ${name} failed`);
      resolve({ file: '', title: `lint ${name}`, messages: [output] });
    });
  });
}
