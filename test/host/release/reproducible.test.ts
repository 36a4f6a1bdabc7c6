import { afterAll, beforeAll, expect, jest, test } from '@jest/globals';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { execa } from 'execa';
import { makeArtifacts, releaseEnvironment, releaseLimitMs, steps } from '../../support/release/artifacts.ts';
import { copyCheckout, makeElsewhere } from './elsewhere.ts';

jest.setTimeout(releaseLimitMs);

let elsewhere = '';
let here = '';
beforeAll(async () => {
  here = await makeArtifacts();
  elsewhere = await copyCheckout();
});
afterAll(() => {
  if (existsSync(elsewhere)) rmSync(elsewhere, { recursive: true });
});

test('a release that is made elsewhere, later, with another umask, time zone and language has the same bytes', async () => {
  const there = await makeElsewhere(elsewhere, steps, releaseEnvironment);
  const sums = readFileSync(join(there, 'SHA256SUMS'), 'utf8');
  expect(sums).toBe(readFileSync(join(here, 'SHA256SUMS'), 'utf8'));
  expect(sums.trim().split('\n').length).toBeGreaterThan(12);
  const { exitCode } = await execa('sha256sum', ['--check', '--quiet', '--strict', 'SHA256SUMS'], {
    cwd: here,
  });
  expect(exitCode).toBe(0);
});
