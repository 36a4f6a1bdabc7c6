import { readSection, readTable, unquote } from '../support/documents/table.ts';
import { globSync, readFileSync } from 'node:fs';
import { test, expect, describe } from '@jest/globals';
import * as names from '../../lib/api/vipnat.ts';
import { toLeaseName } from '../../lib/api/node.ts';
import { fieldTables } from '../support/documents/generated-tables.ts';
import { eventCatalogue } from '../../lib/telemetry/events.ts';
import { conditionToReasons } from '../../cli/reference.ts';

const page = 'docs/services-reference.md';

const readTables = (heading: string) =>
  readSection(page, heading)
    .split(/\n\n/)
    .filter((block) => block.startsWith('| '))
    .map(readTable);

const readNames = (cell = '') => unquote(cell).split(', ');

/** Strings that a pattern finds in the sources that write conditions. */
const findStrings = (pattern: RegExp) =>
  globSync('controller/{allocate,cache,devices,engine,kinds}/*.ts').flatMap((path) =>
    [...readFileSync(path, 'utf8').matchAll(pattern)].map(([, found = '']) => found),
  );

const sort = (names: Iterable<string>) => [...new Set(names)].sort();

test('the first table has every name that is published, and no other', () => {
  const rows = readTable(readSection(page, 'Reference of Services')).map(([name]) => unquote(name));
  const { apiGroup, apiVersion, ...others } = names;
  const labels = Object.keys(others.hidingLabels);
  const published = [...labels, ...Object.values(others).filter((value) => typeof value === 'string')];
  expect(sort(rows)).toEqual(sort([`${apiGroup}/${apiVersion}`, toLeaseName('NODE'), ...published]));
});

describe('every annotation is there, and no other', () => {
  test.each([
    // Each with its former names.
    ['a Service', names.serviceAnnotations],
    ['a pod', names.podAnnotations],
    ["a balancer's Lease", names.reportAnnotations],
  ])('of %s', (owner, annotations) => {
    const rows = readTables(`Annotations of ${owner}`)[0]?.map(([cell]) => readNames(cell));
    expect(rows).toEqual(Object.values<string | readonly string[]>(annotations).map((each) => [each].flat()));
  });

  test('of pools', () => {
    const named = readSection(page, 'AddressPool').match(/`vipnat\.io\/[a-z-]+`/g) ?? [];
    expect(sort(named.map(unquote))).toEqual(sort(Object.values(names.poolAnnotations)));
  });
});

test('every field of the objects has a sentence', () => {
  const rows = fieldTables.flatMap((table) => table.rows);
  expect(rows.length).toBeGreaterThan(20);
  for (const [field, , , meaning] of rows)
    expect([field, meaning]).toEqual([field, expect.stringMatching(/\.$/)]);
});

describe('conditions', () => {
  const [types = []] = readTables('Conditions');

  test('have a row for each type that the controller writes', () => {
    const written = findStrings(/\btype(?:: | = )'([A-Z]\w+)'(?:;|,\s+(?:status|\.\.\.))/g);
    expect(sort(types.map(([, type]) => unquote(type)))).toEqual(
      sort([...written, names.addressReady, names.gateType]),
    );
  });

  test('have a text for each reason that vipnat writes, and for no other', () => {
    const written = findStrings(
      /(?:\breason: |\b(?:refuse|unseated|not)\(|reason \?\? |^ {2}\['[a-z -]+', )'([A-Z]\w+)'/gm,
    );
    const documented = Object.values(conditionToReasons).flatMap(Object.keys);
    const ofEvents = Object.keys(eventCatalogue);
    const missing = written.filter((each) => !documented.includes(each) && !ofEvents.includes(each));
    expect([sort(missing), documented.filter((each) => !written.includes(each))]).toEqual([[], []]);
  });

  test('of a reason are those of the table, and each has reasons', () => {
    const known = types.map(([of, type]) => `${unquote(type).replace(/^.*\//, '')} ${unquote(of)}`);
    const named = Object.keys(conditionToReasons).map((each) =>
      each.replace(/ of an? (\w)/, (_, first: string) => ` ${first.toUpperCase()}`),
    );
    expect(sort(named)).toEqual(sort(known));
  });
});
