// The image's health check: exit status 0 when the agent of this network namespace answers, and has looked at the kernel
// within two minutes: one passes between two looks when nothing happens. The socket is that of agent/http/presence.ts.
const { get } = require('node:http');

const longestMs = 120_000;

get({ socketPath: '\0vipnat-agent', path: '/activity', timeout: 3000 }, async (response) => {
  const { lookedMsAgo } = JSON.parse(Buffer.concat(await response.toArray()).toString());
  end(lookedMsAgo !== null && lookedMsAgo < longestMs, `it last looked ${lookedMsAgo ?? 'never'} ms ago`);
})
  .on('timeout', () => end(false, 'it does not answer'))
  .on('error', () => end(false, 'no agent runs here'));

function end(isHealthy, reason) {
  process.stdout.write(`${isHealthy ? 'healthy' : 'unhealthy'}: ${reason}\n`);
  process.exit(isHealthy ? 0 : 1);
}
