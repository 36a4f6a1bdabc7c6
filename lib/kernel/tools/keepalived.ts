import { execTool } from './exec.ts';

/** It answers in milliseconds, and in 0.2 s for thousands of addresses; on a busy host everything takes longer. */
const limitMs = 10_000;

/**
 * What keepalived finds wrong with a configuration, in its own words: null when it takes it. Changes nothing. Rejects, as execTool does,
 * where it cannot be asked.
 */
export async function testConfiguration(path: string): Promise<string | null> {
  const { exitCode, stdout, stderr } = await execTool({
    tool: 'keepalived',
    arguments: ['--config-test', `--use-file=${path}`],
    limitMs,
  });
  return exitCode === 0 ? null : `${stdout}${stderr}`.trim() || `exit status ${exitCode}`;
}
