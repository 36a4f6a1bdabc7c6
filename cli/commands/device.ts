import { systemClock } from '../../lib/control/clock.ts';
import { describeError } from '../../lib/devices/conformance/subject.ts';
import { type LoadBalancerDriver } from '../../lib/devices/driver.ts';
import { VipnatError } from '../../lib/text/errors.ts';
import { exitStatuses } from '../../lib/text/exit-status.ts';
import { configure } from '../device/configure.ts';
import { conform } from '../device/conform.ts';
import { type OpenDevice, openDevice } from '../device/open-device.ts';
import { readWanted } from '../device/read-wanted.ts';
import { isStateInTrouble } from '../device/judge-state.ts';
import { formatListJson, formatPlanJson, formatStateJson } from '../format/json/device-json.ts';
import { formatList, formatPlan, formatState } from '../format/screens/device.ts';
import { definePlainCommand } from '../command/command.ts';
import { deviceFlags, deviceWords, deviceActions, type DeviceContext } from '../device/flags.ts';

/** `vipnat device`. */
export const device = definePlainCommand({
  addition: `ACTION is one of ${deviceActions.join(', ')}`,
  usage: 'ACTION --device FILE [options]',
  help: `
Examples:
  vipnat device state --device device.yaml --credentials ./secret
  vipnat device list --device device.yaml --json
  vipnat device plan --device device.yaml --balancer web.yaml
  vipnat device conformance --device device.yaml --driver ./driver.mjs
  vipnat device configuration --device device.yaml --credentials ./secret --unit 1

state, list and plan write nothing. list prints what the device has of the cluster that
the file names, plan what a Service would change. conformance tries a driver on a device
without clients. It makes balancers for two clusters of its own, and removes them again.
configuration prints a shell script that writes the files of a unit of HAProxy.
Without --credentials, the variables VIPNAT_DEVICE_USERNAME and VIPNAT_DEVICE_PASSWORD
have the credentials.
Exit status: 0 printed, or no check failed. 1 the device failed. 2 a check failed, or
state found something. 78 the command line or a file is wrong.`,
  flags: deviceFlags,
  words: deviceWords,
  run: askDevice,
});

/**
 * Asks a load balancer outside of the cluster, tries its driver, or prints the configuration of a unit. All but
 * `conformance` write nothing.
 * @throws VipnatError DEVICE_SETTINGS_INVALID, DRIVER_NOT_LOADED, DEVICE_FAILED or DEVICE_IN_USE
 */
async function askDevice(context: DeviceContext): Promise<number> {
  const { options, environment } = context;
  if (options.action === 'configuration') {
    context.stdout(await configure(options, environment));
    return exitStatuses.done;
  }
  const opened = await openDevice(options, environment);
  switch (options.action) {
    case 'conformance':
      return await conform(opened, context);
    case 'list':
      return await list(opened, context);
    case 'plan':
      return await plan(opened, context);
    case 'state':
      return await readState(opened, context);
  }
}

async function list(
  opened: OpenDevice,
  { options: { json }, screen, stdout }: DeviceContext,
): Promise<number> {
  const owned = await ask(opened, (driver, signal) => driver.list(signal));
  stdout(json ? formatListJson(opened, owned) : formatList(owned, screen()));
  return exitStatuses.done;
}

async function plan(opened: OpenDevice, { options, screen, stdout }: DeviceContext): Promise<number> {
  const wanted = await readWanted(options.balancer ?? '', opened.description.cluster);
  const changes = await ask(opened, (driver, signal) => driver.plan(wanted, signal));
  stdout(options.json ? formatPlanJson(opened, changes) : formatPlan(changes, screen()));
  return exitStatuses.done;
}

async function readState(
  opened: OpenDevice,
  { options: { json }, screen, stdout }: DeviceContext,
): Promise<number> {
  const state = await ask(opened, (driver, signal) => driver.readState(signal));
  stdout(json ? formatStateJson(opened, state) : formatState(state, screen()));
  return isStateInTrouble(state) ? exitStatuses.found : exitStatuses.done;
}

/** One question. A person ends it, so nothing else does. */
async function ask<Answer>(
  { open, description: { name } }: OpenDevice,
  question: (driver: LoadBalancerDriver, signal: AbortSignal) => Promise<Answer>,
): Promise<Answer> {
  const driver = open({ clock: systemClock, beforeCall: () => undefined });
  try {
    return await question(driver, new AbortController().signal);
  } catch (error) {
    if (error instanceof VipnatError) throw error;
    const words = describeError(error);
    const line = words.startsWith('refused: ')
      ? `the device ${name} ${words}`
      : `cannot read the device ${name}: ${words}`;
    throw new VipnatError('DEVICE_FAILED', line, { cause: error });
  }
}
