// The image's health check: exit status 0 when the program of this container answers, and does not hang. By what the container's
// first process, or the one whose pid is given, was started with:
// - an agent has looked at the kernel within two minutes: one passes between two looks when nothing happens. The socket is that of
//   lib/http/singleton.ts.
// - a balancer's sync is less than two minutes behind. The socket is that of lib/http/singleton.ts.
// - a controller answers /healthz where it listens, 127.0.0.1:10268 unless it was told otherwise. One that serves nothing is asked nothing.
const { get } = require('node:http');
const { readFileSync } = require('node:fs');

const longestMs = 120_000;

const words = readFileSync(`/proc/${process.argv[2] ?? 1}/cmdline`, 'utf8').split('\0');
if (words.includes('controller')) askController();
else if (words.includes('balancer')) askBalancer();
else askAgent();

function askAgent() {
  ask({ socketPath: '\0vipnat-agent', path: '/activity' }, 'no agent runs here', (_, text) => {
    const { syncedMsAgo } = JSON.parse(text);
    end(
      syncedMsAgo !== null && syncedMsAgo < longestMs,
      `its last sync was ${syncedMsAgo ?? 'never'} ms ago`,
    );
  });
}

function askBalancer() {
  ask({ socketPath: '\0vipnat-balancer', path: '/activity' }, 'no balancer runs here', (_, text) => {
    const { behindMs = null } = JSON.parse(text);
    end(
      behindMs !== null && behindMs < longestMs,
      `its sync is ${behindMs ?? 'an unknown number of'} ms behind`,
    );
  });
}

function askController() {
  const listen = findListen() ?? '127.0.0.1:10268';
  if (listen === 'off') end(true, 'it serves nothing');
  const [, address, port] = /^\[?(.*?)\]?:(\d+)$/.exec(listen) ?? [];
  const host = { '0.0.0.0': '127.0.0.1', '::': '::1' }[address] ?? address;
  ask({ host, port, path: '/healthz' }, `no program answers at ${listen}`, ({ statusCode }, text) => {
    end(statusCode === 200, text);
  });
}

/** `--listen=ADDR` or `--listen ADDR`, or the variable; a file of options is not read. */
function findListen() {
  const joined = words.find((word) => word.startsWith('--listen='));
  if (joined !== undefined) return joined.slice('--listen='.length);
  const at = words.indexOf('--listen');
  return at < 0 ? process.env.VIPNAT_LISTEN : words[at + 1];
}

function ask(where, problem, take) {
  const request = get({ ...where, timeout: 3000 }, async (response) => {
    take(response, Buffer.concat(await response.toArray()).toString());
  });
  request.on('timeout', () => end(false, 'it does not answer')).on('error', () => end(false, problem));
}

function end(isHealthy, reason) {
  process.stdout.write(`${isHealthy ? 'healthy' : 'unhealthy'}: ${reason}\n`);
  process.exit(isHealthy ? 0 : 1);
}
