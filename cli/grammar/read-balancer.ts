import * as z from 'zod/mini';
import { quoteText } from '../../config/setting.ts';
import { address } from '../../config/values.ts';
import { servicesNamespace } from '../generate/manifest/options.ts';
import { findProbePortProblems, readProbePort } from '../generate/manifest/probe-port.ts';
import { type Found, type Own } from './read-command.ts';

/** `balancer`. */
export function readBalancer(own: Own): Found {
  const { namespace = servicesNamespace, nodeAddress = [], nodeProbePort = null } = own;
  // The downward API gives all addresses of a pod's host in one text, and none before it has any.
  const texts = nodeAddress.flatMap((text) => text.split(',')).filter((text) => text !== '');
  const read = texts.map((text) => ({ text, result: z.safeParse(address, text) }));
  const problems = [
    ...read.flatMap(({ text, result }) => (result.success ? [] : [explain(text, result.error.issues)])),
    ...findProbePortProblems(nodeProbePort),
  ];
  const nodeAddresses = read.flatMap(({ result }) => (result.success ? [result.data.text] : []));
  const probePort = readProbePort(nodeProbePort);
  return { command: { name: 'balancer', options: { namespace, nodeAddresses, probePort } }, problems };
}

function explain(text: string, [issue]: readonly { readonly message: string }[]): string {
  return `--node-address ${quoteText(text)} ${issue?.message ?? 'is wrong'}. Example: --node-address 10.0.0.21`;
}
