import type { HttpsServer } from '../../lib/http/client.ts';
import {
  type DeviceSettings,
  checkSettings,
  refuseSettings,
  refuseSameUnits,
  refuseUnknown,
} from '../driver.ts';

/** Settings of an Alteon, read and found to be meant. */
export interface AlteonSettings {
  readonly cluster: string;
  readonly units: readonly AlteonAddress[];
  readonly options: AlteonOptions;
}

/** One unit. */
export interface AlteonAddress {
  /** As it was given. */
  readonly unit: string;
  readonly server: HttpsServer;
}

/** The driver's own options. */
export interface AlteonOptions {
  /** Which property of the unit has its role: that of its high availability by switch, or that of VRRP. */
  readonly role: 'haSwitchInfoState' | 'vrrpInfoHAState';
  /** How many rows of a table one question asks for: without a number a unit answers with few. */
  readonly listSize: number;
  /** Which address clients' connections get before they reach a member: see `proxyIpModes`; null leaves it as the unit has it. */
  readonly proxyIpMode: number | null;
}

/** Source: Alteon's MIB, slbNewCfgEnhVirtServiceProxyIpMode. The modes that need no further value. */
const proxyIpModes = new Map([
  ['ingress', 0],
  ['egress', 1],
  ['disable', 4],
]);

/** As other clients ask: goalteon, DefaultCount. */
const usualListSize = 9000;

/** @throws VipnatError DEVICE_SETTINGS_INVALID where settings cannot be meant. */
export function readSettings(settings: DeviceSettings): AlteonSettings {
  const { cluster, units, ca } = settings;
  const credentials = checkSettings(settings);
  refuseSameUnits(settings, units);
  if (credentials.username.includes(':')) throw refuseSettings(settings, 'its user name has a colon');
  return {
    cluster,
    units: units.map((unit) => ({ unit, server: { ...readUnit(settings, unit), ca, credentials } })),
    options: readOptions(settings),
  };
}

function readUnit(settings: DeviceSettings, unit: string): { readonly host: string; readonly port: number } {
  const url = URL.parse(unit.includes('://') ? unit : `https://${unit}`);
  const isPlain =
    url?.protocol === 'https:' && url.username === '' && url.search === '' && url.pathname === '/';
  if (!isPlain || url.hash !== '' || url.hostname === '') {
    throw refuseSettings(
      settings,
      `unit ${JSON.stringify(unit)} is neither HOST:PORT nor a URL such as https://10.0.0.5`,
    );
  }
  return { host: url.hostname.replaceAll(/^\[|\]$/g, ''), port: url.port === '' ? 443 : Number(url.port) };
}

function readOptions(settings: DeviceSettings): AlteonOptions {
  const { role = 'haSwitchInfoState', listSize, proxyIpMode, ...others } = settings.options;
  refuseUnknown(settings, others, 'role, listSize and proxyIpMode');
  if (role !== 'haSwitchInfoState' && role !== 'vrrpInfoHAState') {
    throw refuseSettings(
      settings,
      `option role is haSwitchInfoState or vrrpInfoHAState, not ${JSON.stringify(role)}`,
    );
  }
  return { role, listSize: readListSize(settings, listSize), proxyIpMode: readMode(settings, proxyIpMode) };
}

function readListSize(settings: DeviceSettings, text: string | undefined): number {
  const size = text === undefined ? usualListSize : Number(text);
  if (Number.isInteger(size) && size >= 1 && size <= usualListSize) return size;
  throw refuseSettings(
    settings,
    `option listSize is a number from 1 to ${usualListSize}, not ${JSON.stringify(text)}`,
  );
}

function readMode(settings: DeviceSettings, text: string | undefined): number | null {
  if (text === undefined) return null;
  const mode = proxyIpModes.get(text);
  if (mode !== undefined) return mode;
  const known = [...proxyIpModes.keys()].join(', ');
  throw refuseSettings(settings, `option proxyIpMode is one of ${known}, not ${JSON.stringify(text)}`);
}
