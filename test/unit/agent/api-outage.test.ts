import { describe, beforeAll, afterAll, test, expect } from '@jest/globals';
import { useCertificates, ApiWorld, three, eventually } from '../../support/api/api-world.ts';
import { FakeClock } from '../../support/fakes/clock.ts';
import { FakeKernel } from '../../support/fakes/kernel.ts';
import { createRecordingLogger } from '../../support/fakes/logger.ts';
import { syncKubeProxy } from '../../support/kube-proxy/in-memory.ts';
import { toEndpoint } from '../../support/fakes/endpoints.ts';
import { startAgent } from '../../support/agent/running-agent.ts';

const nft = { family: 'ipv4', dialect: 'nft' } as const;

describe('a real API', () => {
  const certificates = useCertificates();
  let world: ApiWorld;
  beforeAll(() => {
    world = new ApiWorld(certificates());
  });
  afterAll(() => world.close());

  test('that answers 500 for a minute costs two lines and no write to the kernel (I10)', async () => {
    const server = await world.startServer();
    const clock = new FakeClock();
    const kernel = new FakeKernel(clock);
    const logger = createRecordingLogger();
    syncKubeProxy(
      kernel,
      nft,
      three.map((text) => toEndpoint(text)),
    );
    // No test connects to the apiservers that are listed.
    const known = { endpoints: [toEndpoint(`127.0.0.1:${server.port}`)], localAddresses: new Set<string>() };
    const followApi = (onChange: () => void) => {
      const api = world.createApi(clock, logger, onChange);
      const stop = () => {
        api.stop();
      };
      return {
        view: null,
        following: null,
        getView: () => api.getView(known),
        setUnhealthy: () => undefined,
        stop,
      };
    };
    const { agent } = startAgent({ clock, kernel, ports: { logger, followApi } });
    const linesOfLevel = (level: string) => logger.lines.filter((line) => line.level === level);
    await clock.advance(10);
    await eventually('both kinds are watched', () => world.watches === 2);
    await clock.advance(2000);
    const [writes, lines] = [kernel.applied.length, logger.lines.length];
    server.manner = 'failing';
    server.breakConnections();
    await world.pass('it is said', () => linesOfLevel('warn').length === 1, clock);
    const before = clock.now();
    await world.pass('a minute is over', () => clock.now() - before > 60_000, clock);
    server.manner = 'well';
    const count = linesOfLevel('info').length;
    await world.pass('it is back', () => linesOfLevel('info').length > count, clock);
    await agent.stop();
    expect(kernel.applied).toHaveLength(writes);
    const said = logger.lines.slice(lines).filter(({ level }) => level !== 'debug');
    expect(said.map(({ level, message }) => `${level} ${message}`)).toEqual([
      expect.stringMatching(
        /^warn vipnat cannot follow the Kubernetes API: .* is answered with 500: etcdserver: request timed out/,
      ),
      expect.stringMatching(/^info vipnat follows the API at 127\.0\.0\.1:\d+ again after \d+ s/),
    ]);
  });
});
