import { type ConformanceReport } from '../../../lib/devices/conformance/run.ts';
import { type Change, type DeviceState, formatMember, type Owned } from '../../../lib/devices/driver.ts';
import { toPrintableJson } from '../../../lib/text/printable.ts';

/** Which device it is about. */
export interface NamedDevice {
  readonly driver: string;
  readonly description: { readonly name: string; readonly cluster: string };
}

/** What `vipnat device list --json` prints. Each balancer can be given to `plan`. */
export function formatListJson(device: NamedDevice, owned: readonly Owned[]): string {
  return format(device, {
    balancers: owned.map(({ balancer, memberToSessions }) => ({
      ...nameBalancer(balancer),
      addresses: balancer.addresses.map(({ text }) => text),
      method: balancer.method,
      affinitySeconds: balancer.affinityS,
      listeners: balancer.listeners.map(({ protocol, port, members }) => ({
        protocol,
        port,
        members: members.map((member) => ({
          address: member.address.text,
          port: member.port,
          weight: member.weight,
          sessions: memberToSessions?.get(formatMember(member)) ?? null,
        })),
      })),
    })),
  });
}

function nameBalancer({ id: { namespace, name, uid } }: Owned['balancer']): object {
  return { namespace, name, uid };
}

/** What `vipnat device plan --json` prints. */
export function formatPlanJson(device: NamedDevice, changes: readonly Change[]): string {
  return format(device, { changes: changes.map(({ object, before, after }) => ({ object, before, after })) });
}

/** What `vipnat device state --json` prints. */
export function formatStateJson(device: NamedDevice, { units, foreignChanges }: DeviceState): string {
  return format(device, {
    units: units.map(({ unit, role, isInSync, why }) => ({ unit, role, inSync: isInSync, why })),
    foreignChanges,
  });
}

/** What `vipnat device conformance --json` prints. */
export function formatConformanceJson(device: NamedDevice, report: ConformanceReport): string {
  const { capabilities, results, interruption } = report;
  const count = (wanted: string) => results.filter(({ outcome }) => outcome === wanted).length;
  return format(device, {
    capabilities,
    results: results.map((result) => ({
      name: result.name,
      outcome: result.outcome,
      why: result.outcome === 'failed' ? result.why : null,
      needs: result.outcome === 'not run' ? result.needs : [],
    })),
    counts: { passed: count('passed'), failed: count('failed'), notRun: count('not run') },
    interruption,
  });
}

function format({ driver, description: { name, cluster } }: NamedDevice, more: object): string {
  return `${toPrintableJson({ version: 1, device: name, driver, cluster, ...more }, 2)}\n`;
}
