import { test, expect } from '@jest/globals';
import { classifyStatus } from '../../../../devices/alteon/client.ts';
import { findForeign, hasOwn } from '../../../../devices/alteon/driver.ts';

const ours = ['/c/slb/real vipnat_prod_shop_web_1f2e_tcp_443_10.1.0.1_8080', '\trip 10.1.0.1'];
const quoted = ['/c/slb/group "vipnat_prod_shop_web_1f2e_tcp_443"/metric', '\trr'];
const cluster = ['/cfg/slb/virt vipnat_prod-2_shop_web_1f2e_tcp_443_10.0.0.1/service 443'];
const real = ['/c/slb/real intranet', '\tname vipnat_prod_shop_web_1f2e'];
const access = ['/c/sys/access/user', '\tadmpw "secret"'];

test.each([
  ['nothing', [], []],
  ['our objects, with a comment before them', ['Pending changes:', ...ours, ...quoted], []],
  ['those of another cluster', [...ours, ...cluster], cluster],
  ['one whose name only mentions ours', [...real, ...ours], real],
  ['what may have a secret', [...quoted, ...access], access.slice(0, 1)],
  ['what cannot be read', ['admpw secret'], ['changes that vipnat cannot read']],
])('in a difference with %s, what is foreign is found', (_what, lines, foreign) => {
  expect(findForeign(lines, 'prod')).toEqual(foreign);
});

test('only what a unit says of a change itself is a refusal, and is split', () => {
  const statuses = [400, 403, 404, 409, 422, 429, 500, 502, 503, 504];
  expect(statuses.filter((status) => classifyStatus(status) === 'unreachable')).toEqual([429, 502, 503, 504]);
});

test('objects of ours are found beside others', () => {
  expect(hasOwn([...real, ...ours], 'prod')).toBe(true);
  expect(hasOwn([...real, ...cluster], 'prod')).toBe(false);
});
