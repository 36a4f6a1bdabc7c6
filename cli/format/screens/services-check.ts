import { layOutText, paint } from '../text/lay-out.ts';
import { type Screen } from '../text/screen.ts';
import { isUsed } from '../../../lib/services/host-balancer.ts';
import type { ServicesCheck } from '../../../balancer/main.ts';

const label = 'Services  ';

/** What `check` says of Services on this host; empty without any. */
export function formatServicesCheck(found: ServicesCheck, screen: Screen): string {
  if (!isUsed(found.host)) return '';
  const lines = [...formatDrift(found, screen), ...found.unread.flatMap((text) => warn(text, screen))];
  return lines.map((line) => `${line}\n`).join('');
}

function formatDrift({ host, drift, commands }: ServicesCheck, screen: Screen): string[] {
  const { activity, balancer } = host;
  if (drift.length === 0) {
    const count = activity?.services ?? 0;
    const services = `${count} Service${count === 1 ? '' : 's'}`;
    const words = commands === null ? 'are balanced' : 'are balanced, and the tables are in sync';
    const text = `Services ${words} (${activity?.mode ?? ''}, ${services}). Nothing to change.`;
    return layOutText('', text, screen).map((line) => paint(line, 'good', screen));
  }
  const repair =
    balancer === null
      ? "kube-proxy's rules, if any, get the connections; a balancer that starts repairs it"
      : `the running balancer (pid ${balancer.pid}) repairs what differs; its log says why if it does not`;
  const blank = ' '.repeat(label.length);
  return [
    ...drift.flatMap((text, at) => layOutText(`${at === 0 ? label : blank}drift: `, text, screen)),
    ...layOutText(`${blank}       `, repair, screen),
  ];
}

function warn(text: string, screen: Screen): string[] {
  return layOutText('warning: ', text, screen);
}
