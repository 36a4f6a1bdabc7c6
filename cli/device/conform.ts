import { constants } from 'node:os';
import { findNearest } from '../../config/nearest.ts';
import { quoteText } from '../../config/setting.ts';
import { systemClock } from '../../lib/control/clock.ts';
import { type Check } from '../../lib/devices/conformance/check.ts';
import { listChecks } from '../../lib/devices/conformance/list-checks.ts';
import { type ConformanceReport, runConformance } from '../../lib/devices/conformance/run.ts';
import { VipnatError } from '../../lib/text/errors.ts';
import { exitStatuses } from '../../lib/text/exit-status.ts';
import { formatConformanceJson } from '../format/json/device-json.ts';
import { formatResult, formatSummary } from '../format/screens/conformance.ts';
import { type DeviceContext } from './flags.ts';
import { chooseSites } from './choose-sites.ts';
import { type OpenDevice } from './open-device.ts';

/**
 * `vipnat device conformance`: prints a line for each check when it has ended and nothing of it is left on the device, so a reader may
 * go away at any time. The first SIGINT, SIGTERM or SIGHUP ends the checks, the second one the removal.
 * @throws VipnatError CONFIG_INVALID, DEVICE_SETTINGS_INVALID, DEVICE_FAILED or DEVICE_IN_USE
 */
export async function conform(opened: OpenDevice, context: DeviceContext): Promise<number> {
  const { options, screen, stdout, stderr } = context;
  const { open, description } = opened;
  const checks = chooseChecks(options.only);
  const stop = watchSignals(stderr);
  const report = await runConformance(
    {
      clock: systemClock,
      open: (cluster, driverContext) => open(driverContext, cluster),
      sites: chooseSites(description.addresses, options.ports),
    },
    {
      checks,
      signal: stop.checks,
      lastSignal: stop.removal,
      takesLeftovers: options.removeLeftovers,
      onResult: (result) => {
        if (!options.json) stdout(formatResult(result, screen()));
      },
    },
  ).finally(stop.end);
  stdout(options.json ? formatConformanceJson(opened, report) : formatSummary(report, screen()));
  const received = stop.received();
  return received === null ? judge(report) : 128 + constants.signals[received];
}

function judge({ results }: ConformanceReport): number {
  return results.some(({ outcome }) => outcome === 'failed') ? exitStatuses.found : exitStatuses.done;
}

function chooseChecks(only: readonly string[]): readonly Check[] {
  const checks = listChecks();
  const names = checks.map(({ name }) => name);
  const problems = only
    .filter((name) => !names.includes(name))
    .map((name) => {
      const nearest = findNearest(name, names);
      const hint = nearest === null ? `Checks: ${names.join(', ')}` : `Did you mean ${nearest}?`;
      return `--only ${quoteText(name)} is not a check. ${hint}`;
    });
  if (problems.length > 0) throw new VipnatError('CONFIG_INVALID', problems.join('\n'));
  return only.length === 0 ? checks : checks.filter(({ name }) => only.includes(name));
}

interface Stop {
  readonly checks: AbortSignal;
  readonly removal: AbortSignal;
  /** The first signal; null until it comes. */
  readonly received: () => NodeJS.Signals | null;
  readonly end: () => void;
}

function watchSignals(say: (text: string) => void): Stop {
  const [checks, removal] = [new AbortController(), new AbortController()];
  let received: NodeJS.Signals | null = null;
  const onSignal = (name: NodeJS.Signals) => {
    if (received === null) say('vipnat removes what the suite made. A second signal ends the removal\n');
    else removal.abort(new Error('interrupted'));
    received ??= name;
    checks.abort(new Error('interrupted'));
  };
  // The first process of a container has a listener that ends it.
  const former = signals.map((name) => ({ name, listeners: process.listeners(name) }));
  for (const name of signals) process.removeAllListeners(name).on(name, onSignal);
  return {
    checks: checks.signal,
    removal: removal.signal,
    received: () => received,
    end: () => {
      for (const { name, listeners } of former) {
        process.off(name, onSignal);
        for (const listener of listeners) process.on(name, listener);
      }
    },
  };
}

const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
