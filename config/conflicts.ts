import { accessSync, constants, statSync } from 'node:fs';
import { type Family } from '../lib/address/address.ts';
import { type Endpoint, formatEndpoint } from '../lib/address/endpoint.ts';
import { readCertificates } from '../lib/files/authority.ts';
import { type OptionName, type Values } from './options.ts';
import { findLine, formatSource, nameIn, type Problem, quoteText, type Settings } from './setting.ts';

/**
 * The problems that values have with one another, each right by itself, and with this host unless they are for another:
 * in the order of the options.
 */
export function findConflicts(values: Values, settings: Settings, isForElsewhere: boolean): Problem[] {
  const format = (name: OptionName, complaints: readonly Complaint[]) =>
    complaints.map(({ text, index, what, hint }) => {
      const setting = settings.get(name);
      const from = formatSource(setting?.from(index) ?? '');
      return {
        text: `${nameIn(name, setting)} ${text} ${what}${from}. ${hint}`,
        line: findLine(setting, index),
      };
    });
  return [
    ...format('vip', checkVips(values.vip)),
    ...format('method', checkMethod(values)),
    ...format('clusterIp', checkClusterIps(values)),
    ...format('endpoints', checkEndpoints(values)),
    ...format('caFile', isForElsewhere ? [] : checkCaFile(values)),
    ...format('kubeconfig', isForElsewhere ? [] : checkKubeconfig(values)),
    ...format('listen', checkListen(values)),
  ];
}

interface Complaint {
  readonly text: string;
  /** Which element of the list, if it is one. */
  readonly index?: number;
  readonly what: string;
  readonly hint: string;
}

function checkVips(vips: readonly Endpoint[]): Complaint[] {
  const texts = vips.map(formatEndpoint);
  return texts.flatMap((text, index) =>
    texts.indexOf(text) === index ? [] : [{ text, index, what: 'is given twice', hint: 'Leave one out' }],
  );
}

/** kube-proxy chooses where its rules lead. */
function checkMethod({ method, mode }: Values): Complaint[] {
  if (method === 'random' || mode === 'auto' || mode === 'direct') return [];
  const what = `cannot be had with the mode ${mode}, where kube-proxy chooses`;
  return [{ text: method, what, hint: 'Leave out the mode, or give direct' }];
}

function checkClusterIps({ clusterIp, vip }: Values): Complaint[] {
  return clusterIp.flatMap(({ family, text }, index) => {
    if (vip.some(({ address }) => address === text)) {
      return [{ text, index, what: 'is a virtual IP', hint: 'Give the ClusterIP of default/kubernetes' }];
    }
    if (clusterIp.findIndex((other) => other.family === family) < index) {
      const what = `is a second ClusterIP for ${nameFamily(family)}`;
      return [{ text, index, what, hint: 'Give one per family' }];
    }
    return checkFamily({ family, text, index }, vip);
  });
}

function checkEndpoints({ endpoints, vip }: Values): Complaint[] {
  return endpoints.flatMap((endpoint, index) => {
    const text = formatEndpoint(endpoint);
    if (vip.some(({ address }) => address === endpoint.address)) {
      const what = 'is at a virtual IP: connections would run in a loop';
      return [{ text, index, what, hint: "Give the apiservers' own addresses" }];
    }
    return checkFamily({ family: endpoint.family, text, index }, vip);
  });
}

function checkCaFile({ caFile }: Values): Complaint[] {
  if (caFile === null || readCertificates(caFile) !== null) return [];
  const what = 'cannot be read as a PEM certificate';
  return [
    { text: quoteText(caFile), what, hint: "Give the cluster's CA, such as /etc/kubernetes/pki/ca.crt" },
  ];
}

/** What is in it is read with the library for it, later: it is replaced now and then while the agent runs. */
function checkKubeconfig({ kubeconfig }: Values): Complaint[] {
  if (kubeconfig === null || isReadableFile(kubeconfig)) return [];
  const hint = 'Give a kubeconfig, such as /etc/kubernetes/admin.conf';
  return [{ text: quoteText(kubeconfig), what: 'is not a readable file', hint }];
}

/** Whoever asked there would be sent to an apiserver. */
function checkListen({ listen, vip }: Values): Complaint[] {
  const text = listen === null ? 'off' : formatEndpoint(listen);
  if (!vip.map(formatEndpoint).includes(text)) return [];
  return [{ text, what: 'is a virtual IP that vipnat balances', hint: 'Give another port' }];
}

function isReadableFile(path: string): boolean {
  try {
    accessSync(path, constants.R_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

/** Without any VIP there is nothing to compare with: that is another problem, or none, as for cleanup. */
function checkFamily(
  { family, text, index }: { family: Family; text: string; index: number },
  vips: readonly Endpoint[],
): Complaint[] {
  if (vips.length === 0 || vips.some((vip) => vip.family === family)) return [];
  const name = nameFamily(family);
  return [{ text, index, what: `is ${name}, but no virtual IP is`, hint: `Add an ${name} virtual IP` }];
}

function nameFamily(family: Family): string {
  return family === 'ipv4' ? 'IPv4' : 'IPv6';
}
