/**
 * The Kubernetes API of the miniature cluster, for default/kubernetes only. Run as a program of its own in a host's
 * namespace:
 *   kube-api.ts ADDRESS PORT CERTIFICATE KEY
 * Each line on standard input changes something: `list ADDRESS…` is what the EndpointSlice has from then on,
 * `answer MANNER` how it answers. Each is answered with `done`.
 */
import { createInterface } from 'node:readline';
import { type Manner } from '../kube-api/kube-answers.ts';
import { KubeApi } from '../kube-api/kube-api.ts';
import { makeService, makeSlice } from '../kube-api/kube-store.ts';

const [host = '', port = '', certificate = '', key = ''] = process.argv.slice(2);
const api = await KubeApi.start({ pair: { certificate, key }, host, port: Number(port) });
api.store.put('Service', makeService());
process.stdout.write('done\n');

createInterface(process.stdin).on('line', (line) => {
  const [verb, ...words] = line.split(' ');
  if (verb === 'list') api.store.put('EndpointSlice', makeSlice(words));
  if (verb === 'answer') {
    api.manner = words.join(' ') as Manner;
    api.breakConnections();
  }
  process.stdout.write('done\n');
});
