/** Whom the controller counts on takes new addresses, and nobody else does. */
import { useBalancerWorld } from '../../support/api/balancer-world.ts';
import { describe, test, expect } from '@jest/globals';

const world = useBalancerWorld();

const untilServed = () => world().untilPrinted(/10\.77\.0\.60/);

describe('a balancer whose Lease cannot be renewed', () => {
  test('serves nothing at its start, lets what a former life has left run out, and serves once it is renewed', async () => {
    world().api.leases.refusal = 403;
    world().startBalancer();
    await world().pass(120);
    expect(await world().print()).toBe('');
    expect(world().readLog('error', 'lets its table run out')).toHaveLength(1);
    world().api.leases.refusal = null;
    await untilServed();
  });

  test('keeps what it has after 40 s, follows endpoints, and takes no new address', async () => {
    world().startBalancer();
    await untilServed();
    await world().pass(15);
    world().api.leases.refusal = 500;
    await world().pass(25);
    world().addService('early', '10.77.0.62');
    await world().untilPrinted(/10\.77\.0\.62/);
    await world().pass(25);
    world().addService('late', '10.77.0.63');
    world().list('web', '10.244.3.3');
    await world().untilPrinted(/10\.244\.3\.3/);
    expect(await world().print()).toMatch(/10\.77\.0\.62/);
    const held = world().view?.programmed.virtualips;
    await world().pass(30);
    expect(await world().print()).not.toMatch(/10\.77\.0\.63/);
    expect(world().view?.programmed.virtualips).toBe(held);
    world().api.leases.refusal = null;
    await world().untilPrinted(/10\.77\.0\.63/);
  });

  test('gives addresses up meanwhile, and takes Services away from them', async () => {
    world().startBalancer();
    await untilServed();
    world().api.leases.refusal = 500;
    await world().pass(60);
    world().api.store.remove('VirtualIP', '10.77.0.60');
    await world().until(async () => !(await world().print()).includes('10.77.0.60'), 'it is given up');
    expect(await world().print()).toMatch(/10\.77\.0\.61/);
  });
});

describe('a balancer that was cut off', () => {
  test('lists the addresses again after it has renewed its Lease, before it takes one', async () => {
    world().startBalancer();
    await untilServed();
    await world().api.stop();
    await world().pass(60, 1000);
    world().addService('new', '10.77.0.62');
    await world().bringApi();
    const asked = () => world().api.questions.filter((question) => /virtualips|leases/.test(question));
    await world().untilPrinted(/10\.77\.0\.62/);
    const renewed = asked().findIndex((question) => question.includes('leases/'));
    const listed = asked().findLastIndex((question) => /virtualips\?(?!watch)/.test(question));
    expect(renewed).toBeGreaterThanOrEqual(0);
    expect(listed).toBeGreaterThan(renewed);
  });

  test('does not take an address that was given without it, whatever its own clock says', async () => {
    world().startBalancer();
    await untilServed();
    await world().pass(1);
    const renewal = world().lease?.spec['renewTime'];
    world().api.leases.refusal = 500;
    world().addService('given', '10.77.0.62', { absent: [{ node: 'n1', renewal }] });
    await world().pass(9);
    expect(await world().print()).not.toMatch(/10\.77\.0\.62/);
    world().api.leases.refusal = null;
    await world().untilPrinted(/10\.77\.0\.62/);
    expect(world().lease?.spec['renewTime']).not.toBe(renewal);
  });
});

test('a balancer that starts renews its Lease with what a former life has said, and makes one that says nothing', async () => {
  world().startBalancer();
  await world().until(() => world().lease !== null, 'there is a Lease');
  expect(world().lease?.metadata.annotations).toMatchObject({
    'vipnat.io/mode': 'none',
    'vipnat.io/programmed': '{}',
  });
  await world().until(() => world().lease?.metadata.annotations?.['vipnat.io/mode'] === 'direct', 'it says');
  await world().stopBalancer();
  const before = world().lease;
  world().startBalancer();
  await world().until(() => world().lease?.spec['renewTime'] !== before?.spec['renewTime'], 'it is renewed');
  expect(world().lease?.metadata.annotations).toEqual(before?.metadata.annotations);
});
