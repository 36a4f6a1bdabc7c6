import { describe, test, expect } from '@jest/globals';
import { join } from 'node:path';
import { writeFileSync } from 'node:fs';
import { makeFolder } from '../../../support/network/own-folder.ts';
import { readConfig } from '../../../../config/load.ts';
import { renderSettingsFile } from '../../../../tools/release/packages/settings-file.ts';
import { optionNames } from '../../../../config/options.ts';

const file = join(makeFolder('settings'), 'vipnat.yaml');

const read = async (text: string) => {
  writeFileSync(file, text);
  return await readConfig({ flags: {}, environment: {}, file, isForElsewhere: true });
};

const lines = renderSettingsFile().split('\n');
const isExample = (line: string) => /^#\w/.test(line);

describe("the packages' configuration", () => {
  test('sets nothing as it is installed', async () => {
    const { problems, given } = await read(renderSettingsFile());
    expect({ problems, given: [...given] }).toEqual({ problems: [], given: [] });
  });

  test('has every option once, in a comment', () => {
    const names = lines.filter(isExample).map((line) => line.slice(1).split(':')[0]);
    expect(names.sort()).toEqual([...optionNames].sort());
  });

  test.each(optionNames)('has an example of %s that is taken without its comment sign', async (name) => {
    const example = lines.find((line) => line.startsWith(`#${name}:`)) ?? '';
    const { problems, given } = await read(`${example.slice(1)}\n`);
    expect({ problems, given: [...given] }).toEqual({ problems: [], given: [name] });
  });
});
