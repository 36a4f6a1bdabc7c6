import type { Lab } from '../../../tools/lab/control-plane/lab.ts';
import type { Target } from '../network/seat-tasks.ts';
import { masters, outsider, apiserverPort } from '../network/layout.ts';

/** The apiservers that answer a client outside at their own addresses now, but not that of a master that is about to be taken away. */
export async function listFinders(lab: Lab, stricken?: string): Promise<Target[]> {
  const asked = masters
    .filter(({ name }) => name !== stricken)
    .map(async ({ addresses }) => {
      const host = addresses[lab.options.family];
      const { errors } = await lab.seat(outsider.name, `straight to ${host}`).request(host, apiserverPort, 1);
      return Object.keys(errors).length === 0 ? [{ host, port: apiserverPort }] : [];
    });
  return (await Promise.all(asked)).flat();
}
