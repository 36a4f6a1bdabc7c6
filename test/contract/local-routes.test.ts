import { expect, test } from '@jest/globals';
import { type LocalRoute } from '../../lib/kernel/port.ts';
import { toEndpoint } from '../support/fakes/endpoints.ts';
import { describeKernels } from './kinds.ts';
import { type KernelSubject } from './subject.ts';

const vip = '10.0.0.50';
const route = { address: vip, device: 'lo', source: '10.0.0.11' };
const ours = { ...route, isOwn: true };
const kernels = { ...route, source: vip, isOwn: false };

async function listRoutes({ kernel }: KernelSubject): Promise<LocalRoute[]> {
  const { routes } = await kernel.readLocalRoutes();
  return routes.filter(({ address }) => address === vip);
}

describeKernels((subject) => {
  const addBoth = async () => {
    await subject().addAddress('10.0.0.11');
    await subject().addAddress(vip);
  };

  test('a new namespace has its loopback addresses, which are no source, and no default route', async () => {
    expect(await subject().kernel.readLocalRoutes()).toEqual({
      addresses: [
        {
          family: 'ipv4',
          address: '127.0.0.1',
          device: 'lo',
          prefixLength: expect.any(Number),
          isSource: false,
        },
        { family: 'ipv6', address: '::1', device: 'lo', prefixLength: 128, isSource: false },
      ],
      routes: [{ address: '127.0.0.1', device: 'lo', source: '127.0.0.1', isOwn: false }],
      usualSource: null,
    });
  });

  test('addresses of both families are told with their prefix, and as a source', async () => {
    await addBoth();
    await subject().addAddress('fd00::50');
    const { addresses } = await subject().kernel.readLocalRoutes();
    expect(addresses).toEqual(
      expect.arrayContaining([
        { family: 'ipv4', address: vip, device: 'lo', prefixLength: 32, isSource: true },
        { family: 'ipv6', address: 'fd00::50', device: 'lo', prefixLength: 128, isSource: true },
      ]),
    );
  });

  test('a route of ours stands before the kernel’s own, once however often it is added, and leaves that behind', async () => {
    const { kernel } = subject();
    await addBoth();
    expect(await listRoutes(subject())).toEqual([kernels]);
    await kernel.addSourceRoute(route);
    await kernel.addSourceRoute(route);
    expect(await listRoutes(subject())).toEqual([ours, kernels]);
    await kernel.removeSourceRoute(route);
    await kernel.removeSourceRoute(route);
    expect(await listRoutes(subject())).toEqual([kernels]);
  });

  test('it outlives its address and its source, and the kernel’s own comes back behind it', async () => {
    const { kernel } = subject();
    await addBoth();
    await kernel.addSourceRoute(route);
    await subject().removeAddress('10.0.0.11');
    expect(await listRoutes(subject())).toEqual([ours, kernels]);
    await subject().removeAddress(vip);
    expect(await listRoutes(subject())).toEqual([ours]);
    await subject().addAddress(vip);
    expect(await listRoutes(subject())).toEqual([ours, kernels]);
    await kernel.removeSourceRoute(route);
    expect(await listRoutes(subject())).toEqual([kernels]);
  });

  test('the latest stands first, and each is removed by itself', async () => {
    const { kernel } = subject();
    await addBoth();
    await subject().addAddress('10.0.0.12');
    const other = { ...route, source: '10.0.0.12' };
    await kernel.addSourceRoute(route);
    await kernel.addSourceRoute(other);
    expect(await listRoutes(subject())).toEqual([{ ...ours, source: '10.0.0.12' }, ours, kernels]);
    await kernel.removeSourceRoute(route);
    expect(await listRoutes(subject())).toEqual([{ ...ours, source: '10.0.0.12' }, kernels]);
  });

  test('a source that is none of this host’s addresses is refused: NETLINK_FAILED', async () => {
    await subject().addAddress(vip);
    await expect(subject().kernel.addSourceRoute(route)).rejects.toMatchObject({ code: 'NETLINK_FAILED' });
    expect(await listRoutes(subject())).toEqual([kernels]);
  });

  test.each(['10.0.0.50:6443', '[fd00::50]:6443'])(
    'own connections to %s from itself are ended, and no other',
    async (text) => {
      const endpoint = toEndpoint(text);
      const { kernel } = subject();
      await subject().addAddress(endpoint.address);
      await subject().connect(endpoint);
      expect(await kernel.abortOwnConnections({ ...endpoint, port: 443 })).toBe(0);
      expect(await kernel.abortOwnConnections(endpoint)).toBe(1);
      expect(await kernel.abortOwnConnections(endpoint)).toBe(0);
    },
  );

  test('those that our route gave another source are left alone', async () => {
    const endpoint = toEndpoint('10.0.0.50:6443');
    await addBoth();
    await subject().kernel.addSourceRoute(route);
    await subject().connect(endpoint);
    expect(await subject().kernel.abortOwnConnections(endpoint)).toBe(0);
  });
});
