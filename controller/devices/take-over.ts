/** What another controller of devices has put on the Endpoints of a Service: its finalizer, which keeps a deleted Service's Endpoints. */
import * as z from 'zod/mini';
import { type NamespacedName, version } from '../../lib/kubernetes/api-object.ts';
import { type ObjectClient } from '../../lib/kubernetes/object-client.ts';
import { formerFinalizer } from '../../lib/services/names.ts';
import { VipnatError } from '../../lib/text/errors.ts';

const schema = z.object({
  metadata: z.object({ resourceVersion: version, finalizers: z.nullish(z.array(z.string())) }),
});

const readMs = 4000;

/**
 * Takes it off, where it is there. The namespace is vipnat's own. Answers whether it is off now: false where somebody else wrote the Endpoints meanwhile.
 * @throws VipnatError API_FORBIDDEN, with the remedy, or API_UNREACHABLE
 */
export async function dropFormerFinalizer(
  client: ObjectClient,
  { namespace, name }: NamespacedName,
  { writeMs, namespace: own }: { readonly writeMs: () => number; readonly namespace: string },
): Promise<boolean> {
  const what = `the Endpoints ${namespace}/${name}`;
  const path = `/api/v1/namespaces/${namespace}/endpoints/${name}`;
  const answer = await client.read({ title: `reading ${what}`, path, schema }, readMs);
  if (answer.outcome === 'gone') return true;
  if (answer.outcome !== 'found') throw toError(answer.outcome, answer.words, own);
  const { resourceVersion, finalizers } = answer.object.metadata;
  if (finalizers?.includes(formerFinalizer) !== true) return true;
  const limitMs = writeMs();
  if (limitMs === 0) return false;
  const body = {
    metadata: { resourceVersion, finalizers: finalizers.filter((each) => each !== formerFinalizer) },
  };
  const title = `taking the finalizer ${formerFinalizer} off ${what}`;
  const { outcome, words } = await client.write({ title, method: 'PATCH', path, body }, limitMs);
  if (outcome === 'taken' || outcome === 'gone') return true;
  if (outcome === 'conflict') return false;
  throw toError(outcome, words, own);
}

function toError(outcome: string, words: string, own: string): VipnatError {
  if (outcome !== 'forbidden' && outcome !== 'refused') return new VipnatError('API_UNREACHABLE', words);
  const role = 'kubectl create clusterrole vipnat-takes-over --verb=get,patch --resource=endpoints';
  const binding = `kubectl create clusterrolebinding vipnat-takes-over --clusterrole=vipnat-takes-over --serviceaccount=${own}:vipnat-controller`;
  return new VipnatError('API_FORBIDDEN', `${words}. Run: ${role} && ${binding}`);
}
