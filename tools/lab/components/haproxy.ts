import type { Family } from '../../../lib/net.ts';
import { type Command, toUrlHost } from './command.ts';
import { join } from 'node:path';
import { writeFileSync } from 'node:fs';
import { masters, apiserverPort } from '../../../test/support/network/layout.ts';

/** Where HAProxy takes connections to the VIP: the apiservers have the other port. */
export const haproxyPort = 8443;

/** Where a master's HAProxy tells what it knows of its servers, one line for each. */
export const haproxyStatusUrl = 'http://127.0.0.1:8404/;csv';

/** The name of the servers' group, with which their lines begin. */
export const haproxyBackend = 'apiserverbackend';

/** A master's HAProxy in front of all apiservers, as kubeadm's guide to high availability has it. */
export function haproxyCommand(master: string, folder: string, family: Family): Command {
  const configuration = join(folder, master, 'haproxy.cfg');
  writeFileSync(configuration, renderConfiguration(family));
  return { command: ['haproxy', '-db', '-f', configuration] };
}

/**
 * Word for word, but for the logs, and the page with its state at the end.
 * Source: kubernetes/kubeadm, docs/ha-considerations.md, "haproxy configuration".
 */
function renderConfiguration(family: Family): string {
  const servers = masters.map(
    ({ name, addresses }) =>
      `  server ${name} ${toUrlHost(addresses[family])}:${apiserverPort} check verify none`,
  );
  return `defaults
  mode http
  option http-server-close
  option forwardfor except 127.0.0.0/8
  option redispatch
  retries 1
  timeout http-request 10s
  timeout queue 20s
  timeout connect 5s
  timeout client 35s
  timeout server 35s
  timeout http-keep-alive 10s
  timeout check 10s
frontend apiserver
  bind ${family === 'ipv6' ? '[::]' : '*'}:${haproxyPort}
  mode tcp
  default_backend ${haproxyBackend}
backend ${haproxyBackend}
  option httpchk
  http-check connect ssl
  http-check send meth GET uri /healthz
  http-check expect status 200
  mode tcp
  balance roundrobin
${servers.join('\n')}
listen status
  bind 127.0.0.1:8404
  stats enable
  stats uri /
`;
}
