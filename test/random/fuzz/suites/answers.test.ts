import {
  BusyError,
  VersionGoneError,
  NonsenseError,
  describeStatus,
} from '../../../../lib/kubernetes/client.ts';
import { insist, hasControl, isIn, insistOnEndpoint } from '../engine/properties.ts';
import { type Change, ObjectStore } from '../../../../lib/kubernetes/informer.ts';
import type { Random } from '../../../support/random/random.ts';
import { mutateJson } from '../generate/json.ts';
import { mutateText } from '../engine/mutate.ts';
import { testTarget } from '../engine/run.ts';
import { listings, eventLines, agentAnswers } from '../generate/api.ts';
import { readPage, LineReader, readEvent } from '../../../../lib/kubernetes/list-watch.ts';
import { endpointSlices, services, toApiView } from '../../../../agent/api.ts';
import { isDeepStrictEqual } from 'node:util';
import { makeHostileText } from '../engine/hostile.ts';
import { judge } from '../../../../agent/health/connection.ts';
import { activityAnswer, apiAnswer, optionsAnswer, healthAnswer } from '../../../../agent/ask.ts';
import { parseAddress, formatEndpoint } from '../../../../lib/net.ts';
import { readAgentSettings, isOptionName } from '../../../../config/options.ts';
import { readOwnerInfo } from '../../../../lib/http/singleton.ts';
import { makeEndpoint } from '../generate/balances.ts';
import { formatEndpointFile, parseEndpointFile } from '../../../../agent/state.ts';
import { VipnatError } from '../../../../lib/errors.ts';

/** What the function gives, or undefined for an answer that it refuses in one of its own ways. */
function refuseNonsense<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (error instanceof VersionGoneError) return undefined;
    if (!(error instanceof NonsenseError || error instanceof BusyError)) throw error;
    insist(!hasControl(error.message) && error.message.length < 400, JSON.stringify(error.message));
    return undefined;
  }
}

/** What a listener knows after a change. */
function followChange<T>(objects: Map<string, T>, { key, before, after }: Change<T>): void {
  insist(objects.get(key) === (before ?? undefined), 'it says what was known before');
  if (after === null) objects.delete(key);
  else objects.set(key, after);
}

/** The JSON with faults in what it says, or the text with faults that leave no JSON. */
function makeJsonText(random: Random, corpus: readonly object[]): string {
  const value = random.pick(corpus);
  if (random.chance(70)) return JSON.stringify(mutateJson(random, value));
  return mutateText(random, [
    JSON.stringify(value, null, random.below(2)),
    JSON.stringify(random.pick(corpus)),
  ]);
}

testTarget('what an apiserver lists: what is understood of it names no address that is not in it', {
  name: 'EndpointSlices and Service, listed',
  cases: 12_000,
  make: (random) => ({
    slices: makeJsonText(random, [listings.slices, listings.slices6]),
    service: makeJsonText(random, [listings.service]),
  }),
  check: ({ slices, service }) => {
    const listed = refuseNonsense(() => readPage(endpointSlices, slices));
    const named = refuseNonsense(() => readPage(services, service))?.objects[0];
    const view = toApiView(listed?.objects ?? null, named ?? null, true);
    const isInText = isIn(`${slices}\n${service}`);
    for (const finding of Object.values(view.endpoints)) {
      for (const endpoint of finding.value) insistOnEndpoint(endpoint, isInText);
      insist(!hasControl(finding.seenIn), 'where it is from is a line');
    }
    for (const address of Object.values(view.clusterIps)) insist(isInText(address), `not in it: ${address}`);
    for (const sentence of view.refused)
      insist(!hasControl(sentence), `no line: ${JSON.stringify(sentence)}`);
    insist(view.affinitySeconds === null || view.affinitySeconds <= 86_400, 'a time');
  },
});

testTarget('events of a watch, one after the other in any pieces: what is known stays a list', {
  name: 'watch events',
  cases: 12_000,
  make: (random) => ({
    text: random.list(4, () => `${makeJsonText(random, eventLines)}\n`).join(''),
    piece: 1 + random.below(400),
  }),
  check: ({ text, piece }) => {
    const store = new ObjectStore(endpointSlices);
    const { objects, version } = readPage(endpointSlices, JSON.stringify(listings.slices));
    store.replace(objects);
    const versions = [version];
    const before = new Map(store.objects);
    const heard = new Map(before);
    refuseNonsense(() => {
      const reader = new LineReader(2_000_000, (line) => {
        const event = readEvent(endpointSlices, line);
        versions.push(event.version);
        for (const change of store.apply(event)) followChange(heard, change);
      });
      for (let at = 0; at < text.length; at += piece) reader.read(text.slice(at, at + piece));
      reader.end();
    });
    insist(store.objects.size <= 100 && !versions.some(hasControl), 'versions and a list');
    for (const [name, object] of store.objects) insist(object.metadata.name === name, 'by its name');
    insist(isDeepStrictEqual([...heard], [...store.objects]), 'who heard every change knows the same');
  },
});

const checks = `[+]ping ok
[+]log ok
[-]etcd failed: reason withheld
[-]shutdown failed: reason withheld
[+]poststarthook/start-apiextensions-controllers ok
readyz check failed
`;

testTarget('answers to /readyz and Status bodies: a state and a line', {
  name: '/readyz and Status',
  cases: 60_000,
  make: (random) => ({
    statusCode: random.pick([0, 200, 401, 403, 429, 500, 503, 999]),
    complete: random.chance(90),
    body: mutateText(random, [
      checks,
      JSON.stringify({ kind: 'Status', message: makeHostileText(random), code: 403 }),
    ]),
  }),
  check: ({ body, ...answer }) => {
    const outcome = judge(answer, body);
    if (outcome.kind === 'failing')
      insist(!hasControl(outcome.reason) && outcome.reason.length < 400, 'a line');
    insist(!hasControl(describeStatus(body)), 'a line of what a Status says');
  },
});

testTarget('what holds the agent’s name answers: nothing that is no address, number or line gets through', {
  name: 'answers of the abstract socket',
  cases: 15_000,
  make: (random) => JSON.parse(JSON.stringify(mutateJson(random, random.pick(agentAnswers)))) as unknown,
  check: (json) => {
    checkApiWord(json);
    for (const line of listLines(json)) insist(!hasControl(line), `no line: ${JSON.stringify(line)}`);
    activityAnswer.safeParse(json);
    checkOptions(json);
  },
});

/** What plan, check and status take from an agent for what the API says. */
function checkApiWord(json: unknown): void {
  const word = apiAnswer.safeParse(json).data;
  if (word === undefined) return;
  const { endpoints, clusterIps, affinitySeconds } = word.view ?? noView;
  const isInText = isIn(JSON.stringify(json));
  const found = Object.values(endpoints).map(({ value }) => value);
  for (const endpoint of [...found, ...Object.values(word.proxyOnly)].flat())
    insistOnEndpoint(endpoint, isInText);
  for (const [family, address] of Object.entries(clusterIps))
    insist(parseAddress(address)?.family === family, `no address: ${JSON.stringify(address)}`);
  checkTime(affinitySeconds);
}

/** What a diagnostic takes for its configuration: texts that the agent told, for options that make sense. */
function checkOptions(json: unknown): void {
  const told = optionsAnswer.safeParse(json).data?.options;
  const settings = told === undefined ? null : readAgentSettings(told);
  if (settings === null) return;
  const texts = Object.values(told ?? {}).flat();
  for (const [name, { value }] of settings) {
    insist(isOptionName(name), `no option: ${JSON.stringify(name)}`);
    for (const text of [value].flat()) {
      const isReported = typeof text === 'string' && texts.some((one) => one.includes(text));
      insist(isReported, `nobody told ${JSON.stringify(text)}`);
    }
  }
}

const noView = { endpoints: {}, clusterIps: {}, affinitySeconds: null };

function checkTime(seconds: number | null): void {
  if (seconds === null) return;
  insist(Number.isInteger(seconds) && seconds > 0 && seconds <= 86_400, `no time: ${seconds}`);
}

/** What of an answer is printed. */
function listLines(json: unknown): string[] {
  const view = apiAnswer.safeParse(json).data?.view;
  const info = readOwnerInfo(json);
  const health =
    healthAnswer.safeParse(json).data ?? new Map<string, { reason: string; unconfirmedFailure?: string }>();
  return [
    ...(view?.refused ?? []),
    ...Object.values(view?.endpoints ?? {}).map(({ seenIn }) => seenIn),
    ...(info === null ? [] : [info.version, info.since, String(info.pid)]),
    ...[...health.values()].flatMap(({ reason, unconfirmedFailure = '' }) => [reason, unconfirmedFailure]),
  ];
}

testTarget('the state file, with faults: what was saved, or a phrase about it', {
  name: 'state file',
  cases: 20_000,
  make: (random) => {
    const endpoints = [1, 2, 3].map(() => makeEndpoint(random, random.pick(['ipv4', 'ipv6'])));
    const former = [1, 2].map(() => makeEndpoint(random, random.pick(['ipv4', 'ipv6'])));
    const saved = { savedAt: '2026-11-22T00:00:00.000Z', endpoints, ...random.pick([{}, { former }]) };
    const text = formatEndpointFile(saved);
    return { saved, text, changed: mutateText(random, [text]) };
  },
  check: ({ saved, text, changed }) => {
    insist(isDeepStrictEqual(parseEndpointFile(text), saved), 'read otherwise than saved');
    const read = parseEndpointFile(changed);
    if (typeof read === 'string') {
      const message = new VipnatError('STATE_UNREADABLE', `the file ${read}`);
      insist(!hasControl(message.message), `no line: ${JSON.stringify(read)}`);
      return;
    }
    insist(
      isDeepStrictEqual(read.endpoints.map(formatEndpoint), saved.endpoints.map(formatEndpoint)),
      'what was changed is believed',
    );
  },
});
