import { expect, test } from '@jest/globals';
import {
  addAnswer,
  addReport,
  hasNeverAnswered,
  isReturning,
  type NodeState,
  unknownNode,
} from '../../../../balancer/nodes/node-state.ts';

/** Connects one after the other, 200 ms apart, each with its answer. */
function ask(before: NodeState, answers: readonly boolean[], fromMs = 0): NodeState {
  return answers.reduce((state, isHeard, index) => {
    const askedAt = fromMs + index * 200;
    return addAnswer(state, { isHeard, askedAt, wasWitnessed: true }, askedAt + 200);
  }, before);
}

const silent = (count: number) => Array<boolean>(count).fill(false);

test('a node that never answered is left after 8 connects, and not before', () => {
  expect([7, 8].map((count) => hasNeverAnswered(ask(unknownNode, silent(count))))).toEqual([false, true]);
  expect(hasNeverAnswered(ask(unknownNode, [true, ...silent(8)]))).toBe(false);
});

test('one that answered is out after two silences that another node witnessed, since the first of them', () => {
  const heard = ask(unknownNode, [true]);
  expect([1, 2].map((count) => ask(heard, silent(count), 1000).outSince)).toEqual([null, 1000]);
  const unwitnessed = (state: NodeState, askedAt: number) =>
    addAnswer(state, { isHeard: false, askedAt, wasWitnessed: false }, askedAt + 200);
  expect([1000, 1200, 1400].reduce(unwitnessed, heard).outSince).toBeNull();
});

test('its open connections are lost after 5 s, and not before', () => {
  const out = ask(ask(unknownNode, [true]), silent(2), 1000);
  const silence = { isHeard: false, askedAt: 5000, wasWitnessed: true };
  expect([5999, 6000].map((now) => addAnswer(out, silence, now).isLost)).toEqual([false, true]);
});

test('one that was away for 12 s is back 3 s after its balancer has reported; for less, with its second answer', () => {
  const lost = addAnswer(
    ask(ask(unknownNode, [true]), silent(2), 1000),
    { isHeard: false, askedAt: 5800, wasWitnessed: true },
    6000,
  );
  const comeBack = (atMs: number) => ask(lost, [true, true], atMs);
  expect([12_999, 13_000].map((atMs) => isReturning(comeBack(atMs)))).toEqual([false, true]);
  expect(comeBack(12_999).outSince).toBeNull();
  const reported = addReport(comeBack(13_000), 14_000);
  const answer = { isHeard: true, askedAt: 16_000, wasWitnessed: true };
  const outSince = [16_999, 17_000].map((now) => addAnswer(reported, answer, now).outSince);
  expect(outSince).toEqual([1000, null]);
});
