import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test } from '@jest/globals';
import { SharedLock } from '../../../../lib/control/shared-lock.ts';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

test('what was answered under a lock is not kept by it', async () => {
  const lock = new SharedLock();
  const answers: WeakRef<object>[] = [];
  const answer = () => {
    const one = { list: [] };
    answers.push(new WeakRef(one));
    return Promise.resolve(one);
  };
  for (let turn = 0; turn < 5; turn += 1) await lock.share(answer);
  await lock.alone(answer);
  await new Promise(setImmediate);
  collect();
  expect(answers.map((one) => one.deref())).toEqual(Array<undefined>(6).fill(undefined));
  await lock.share(answer);
});
