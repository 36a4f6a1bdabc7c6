import { readFileSync } from 'node:fs';
import { waitUntil } from '../host/vipnat.ts';
import { parseDocument } from './document.ts';
import { isAsShown, readSteps, type Step, type TypedCommand } from './walkthrough.ts';

/** What somebody types at: what a command ends with. Never rejects for a failure. */
type Terminal = (
  command: string,
) => Promise<{ readonly exitCode: number; readonly stdout: string; readonly stderr: string }>;

/** What only looks may be typed again, until what shall be seen is seen. */
const looks = /^(?:vipnat (?:status|doctor|check|plan|seats --)|kubectl get|ip )/;

/**
 * Types a command of a page word by word, and sees what stands below it, on the terminal that both outputs go to.
 * @throws Error with what was seen when it is not as the page shows it, or when a command that does more than look fails.
 */
export async function follow(page: string, { command, output }: TypedCommand, type: Terminal): Promise<void> {
  let [last, isSeen] = ['', false];
  const attempt = async () => {
    const { exitCode, stdout, stderr } = await type(command);
    last = `${command}\n=> ${exitCode}\n${stdout}\n${stderr}`;
    const seen = [stdout, stderr, `${stderr.trimEnd()}\n${stdout}`];
    isSeen = seen.some((text) => isAsShown(text, output));
    return isSeen && (exitCode === 0 || looks.test(command));
  };
  const describeLast = () => `not as ${page} has it:\n${output.join('\n')}\n\n$ ${last}`;
  if (looks.test(command)) await waitUntil(attempt, describeLast);
  else if (!(await attempt())) throw new Error(describeLast());
}

/** The steps below a heading of a page, each named by its number and what is typed in it. */
export function listSteps(page: string, heading: string): (Step & { readonly name: string })[] {
  return readSteps(page, heading).map((step, index) => {
    const typed = step.commands.map(({ command }) => command.split(' --')[0]).join('; ');
    return { ...step, name: `step ${index + 1}: ${typed || 'nothing on this node'}` };
  });
}

/**
 * A command line in code of a page, by how it begins.
 * @throws Error where the page has no such line, or several.
 */
export function readCommand(page: string, start: string): string {
  const { code } = parseDocument(page, readFileSync(page, 'utf8'));
  const lines = code.flatMap(({ text }) => text.split('\n')).map((line) => line.replace(/^\$ /, ''));
  const found = [...new Set(lines.filter((line) => line.startsWith(start)))];
  if (found.length !== 1) throw new Error(`${page} has ${found.length} lines that begin with: ${start}`);
  return found[0] ?? '';
}
