/**
 * The Kubernetes API of the miniature cluster, with Services, EndpointSlices, VirtualIPs and AddressPools of all namespaces. Run as
 * a program of its own in a host's namespace:
 *   services-api.ts ADDRESS PORT CERTIFICATE KEY
 * Each line on standard input is a list of changes in JSON, `[KIND, OBJECT]` to put one and `[KIND, NAME]` to remove one. It is
 * answered with `done`.
 */
import { createInterface } from 'node:readline';
import { KubeApi } from '../kube-api/kube-api.ts';
import { type Kind, type KubeObject } from '../kube-api/kube-store.ts';
import { serviceQuestions } from '../kube-api/service-questions.ts';

const [host = '', port = '', certificate = '', key = ''] = process.argv.slice(2);
const pair = { certificate, key };
const api = await KubeApi.start({ pair, host, port: Number(port), questions: serviceQuestions });
api.allowsAll = true;
process.stdout.write('done\n');

createInterface(process.stdin).on('line', (line) => {
  for (const [kind, object] of JSON.parse(line) as [Kind, KubeObject | string][]) {
    if (typeof object === 'string') api.store.remove(kind, object);
    else api.store.put(kind, object);
  }
  process.stdout.write('done\n');
});
