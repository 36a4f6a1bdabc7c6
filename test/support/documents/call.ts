import {
  type CallInvocation,
  parseCommandLine,
  findCommandProblems,
  runProgram,
} from '../../../cli/program.ts';
import { type Environment, type ConfigReading, readConfig } from '../../../config/load.ts';

/** The command that a command line calls. Rejects for what only prints help. */
export async function readCall(words: readonly string[]): Promise<CallInvocation> {
  const call = await parseCommandLine(words, '1.2.3');
  if (call.kind === 'call') return call;
  throw new TypeError(`no command is called: ${words.join(' ')}`);
}

/** The same with its configuration, and everything that is wrong with both. Files that it names need not be on this host. */
export async function checkCall(
  words: readonly string[],
  environment: Environment = {},
): Promise<{ call: CallInvocation; reading: ConfigReading; problems: string[] }> {
  const call = await readCall(words);
  const { command, flags, file } = call;
  const reading = await readConfig({ flags, environment, file, isForElsewhere: true });
  const lacking =
    command.configOptions === undefined ? [] : findCommandProblems({ ...call, command }, reading);
  return { call, reading, problems: [...call.problems, ...reading.problems, ...lacking] };
}

/** Runs a command line in this process; answers how it ended, and what it printed. */
export async function runHere(
  args: readonly string[],
  environment: Environment = {},
): Promise<{ exitCode: number; stdout: string; stderr: string }> {
  let [stdout, stderr] = ['', ''];
  const exitCode = await runProgram({
    args,
    environment,
    stdout: (text) => (stdout += text),
    stderr: (text) => (stderr += text),
  });
  return { exitCode, stdout, stderr };
}
