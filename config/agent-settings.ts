import { parseAddress } from '../lib/address/address.ts';
import { parseEndpoint } from '../lib/address/endpoint.ts';
import { readCertificates } from '../lib/files/authority.ts';
import { describeOption, type OptionName, optionNames, schema } from './options.ts';
import { type Setting, type Settings, splitList } from './setting.ts';
import { defaultVipPort } from './values.ts';

const from = () => 'the running agent';

/**
 * The settings that a running agent tells of itself, option name to texts, checked as whatever a person gives; null when
 * one of them makes no sense here. Options that this version does not know are left out, and so is a CA that is in a file
 * of the agent's container only. Pure but for that file.
 */
export function readAgentSettings(told: Readonly<Record<string, readonly string[]>>): Settings | null {
  const settings = optionNames.flatMap((name): [OptionName, Setting][] => {
    const texts = Object.hasOwn(told, name) ? (told[name] ?? []) : [];
    const [first] = texts;
    if (first === undefined) return [];
    if (name === 'caFile' && readCertificates(first) === null) return [];
    return [[name, { value: describeOption(name).isList ? texts.flatMap(splitList) : first, from }]];
  });
  const raw = Object.fromEntries(settings.map(([name, { value }]) => [name, value]));
  return schema.safeParse(raw).success ? new Map(settings) : null;
}

/** The agent's settings beside a person's own: where other virtual IPs are given, addresses of families that have none do not fit. */
export function fitAgentSettings(agent: Settings, own: Settings): Settings {
  const given = own.get('vip');
  if (given === undefined) return agent;
  const families = new Set(readTexts(given).map((text) => parseEndpoint(text, defaultVipPort)?.family));
  const fits = (text: string) => families.has((parseAddress(text) ?? parseEndpoint(text))?.family);
  return new Map(
    [...agent].map(([name, setting]) =>
      name === 'clusterIp' || name === 'endpoints'
        ? [name, { ...setting, value: readTexts(setting).filter(fits) }]
        : [name, setting],
    ),
  );
}

function readTexts({ value }: Setting): string[] {
  return [value].flat().filter((text) => typeof text === 'string');
}
