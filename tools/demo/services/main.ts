/**
 * Services of type LoadBalancer on one screen, see scripts/demo: real nodes, which are there for this alone. Exit status 1 when
 * anything is not as it should be.
 */
import { Screen } from '../screen/screen.ts';
import type { NodeLab } from '../../lab/nodes/node-lab.ts';
import { raiseDemoNodes } from './raise.ts';
import { showServices } from './show.ts';

const started = performance.now();
const screen = new Screen();
const say = (line: string) => {
  process.stderr.write(`${line}\n`);
};

const lab = await raise();
if (lab !== null) await play(lab);

/** Null where there can be none. */
async function raise(): Promise<NodeLab | null> {
  try {
    return await raiseDemoNodes(say);
  } catch (error) {
    process.exitCode = 1;
    say(`demo: ${toText(error)}`);
    say('scripts/demo without options needs no real nodes.');
    return null;
  }
}

async function play(nodeLab: NodeLab): Promise<void> {
  try {
    await showServices(nodeLab, screen, say);
  } catch (error) {
    screen.failures.push(toText(error));
  }
  nodeLab.closeSeats();
  if (screen.failures.length === 0) {
    await nodeLab.down();
    const seconds = ((performance.now() - started) / 1000).toFixed(0);
    const what = 'an address given, shared evenly, kept without a pod and without a node, taken back';
    process.stdout.write(`\nShown in ${seconds} s: ${what}.\n`);
    return;
  }
  await nodeLab.end();
  process.exitCode = 1;
  const list = screen.failures.map((failure) => `  ${failure}\n`).join('');
  say(`\ndemo: not as expected:\n${list}The logs of the nodes are in ${nodeLab.folder}`);
}

function toText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
