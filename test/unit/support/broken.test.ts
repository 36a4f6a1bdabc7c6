import { expect, test } from '@jest/globals';
import { type Broken, broken } from '../../support/broken/broken.ts';
import { changeSource } from '../../support/broken/source-change.ts';

test.each(Object.values<Broken>(broken))('there is a source to break for one that $name', (one) => {
  expect(changeSource(one)).toContain(one.to);
});
