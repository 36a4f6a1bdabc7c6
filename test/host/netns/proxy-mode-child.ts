/** Asks kube-proxies of all kinds for their mode, and prints the answers. For proxy-mode.test.ts. */
import { execFileSync } from 'node:child_process';
import { type RequestListener, createServer } from 'node:http';
import { askProxyMode } from '../../../agent/observe/kube-proxy.ts';

execFileSync('ip', ['link', 'set', 'lo', 'up']);

/** What is answered while something listens on the port of kube-proxy's metrics. */
async function askWhileListening(
  host: string,
  listener: RequestListener,
  heldMs = 0,
): Promise<string | null> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => {
    server.listen({ host, port: 10249, ipv6Only: host.includes(':') }, () => {
      resolve();
    });
  });
  const asked = askProxyMode();
  // As a look does that reads the rules of a large host.
  if (heldMs > 0) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, heldMs);
  const answer = await asked;
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  return answer;
}

const say =
  (text: string, status = 200): RequestListener =>
  (request, response) => {
    response.statusCode = request.url === '/proxyMode' ? status : 404;
    response.end(text);
  };

const answers = {
  nobody: await askProxyMode(),
  iptables: await askWhileListening('127.0.0.1', say('iptables')),
  ipv6: await askWhileListening('::1', say('ipvs\n')),
  other: await askWhileListening('127.0.0.1', say('not found', 404)),
  endless: await askWhileListening('127.0.0.1', say('x'.repeat(100_000))),
  held: await askWhileListening('127.0.0.1', say('iptables'), 600),
  hanging: await askWhileListening('127.0.0.1', () => undefined),
  aborted: await askWhileListening('127.0.0.1', (request) => {
    request.socket.destroy();
  }),
};
process.stdout.write(JSON.stringify(answers), () => {
  process.exit();
});
