import type { NodeLab } from '../../lab/nodes/node-lab.ts';
import type { Screen } from '../screen/screen.ts';
import { askWeb, type WebAnswers } from '../../lab/services/web.ts';

/** From each place. */
export const requestsPerPlace = 200;

/** Of 200 fair choices among four, one of twelve shares is beyond these once in 2,000 runs. */
const [smallestShare, largestShare] = [0.12, 0.4];

const nameWidth = 32;

/** Asks an address from several places, and shows which share of the requests each pod answered. */
export async function showShares(
  { lab, screen }: { readonly lab: NodeLab; readonly screen: Screen },
  address: string,
  places: Readonly<Record<string, string>>,
): Promise<void> {
  const pods = await listPods(lab);
  screen.show(`${''.padEnd(nameWidth)}${pods.map((pod) => pod.slice(-5).padStart(8)).join('')}   failed`);
  for (const [description, place] of Object.entries(places)) {
    const answers = await askWeb(lab, place, address, requestsPerPlace);
    const shares = pods.map((pod) => (answers.pods[pod] ?? 0) / requestsPerPlace);
    const columns = shares.map((share) => `${(100 * share).toFixed(0)} %`.padStart(8)).join('');
    screen.show(`${description.padEnd(nameWidth)}${columns}${String(answers.failed).padStart(9)}`);
    expectFair({ description, answers, shares }, screen);
  }
}

function expectFair(
  { description, answers, shares }: { description: string; answers: WebAnswers; shares: readonly number[] },
  screen: Screen,
): void {
  screen.expect(answers.failed === 0, `no request from ${description} fails`);
  screen.expect(
    shares.every((share) => share >= smallestShare && share <= largestShare),
    `from ${description}, each pod gets ${100 * smallestShare} to ${100 * largestShare} %`,
  );
}

/** The names of the pods, in order. */
export async function listPods(lab: NodeLab): Promise<string[]> {
  const words = ['get', 'pods', '--selector', 'app=web', '--output', 'jsonpath={.items[*].metadata.name}'];
  return (await lab.ask(words)).split(' ').sort();
}
