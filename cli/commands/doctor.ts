import { hostname } from 'node:os';
import { systemClock } from '../../lib/control/clock.ts';
import { quoteWords } from '../../lib/text/shell-words.ts';
import { toArguments } from '../../config/arguments.ts';
import { gatherFacts } from '../doctor/facts/gather.ts';
import { examine } from '../doctor/stage/examine.ts';
import { duration } from '../../config/values.ts';
import { type CommandContext, defineCommand } from '../command/command.ts';
import { color, hostOptions, json } from '../command/shared-flags.ts';
import { bySchema, type OptionsOf, text, toggle } from '../flags/flag.ts';
import { chooseDoctorStatus, countOutcomes, formatExamination } from '../format/screens/doctor.ts';
import { formatDoctorJson } from '../format/json/doctor-json.ts';
import { nameNode } from '../../config/node-name.ts';
import { connectOnce } from '../../lib/probe/connect.ts';
import { createKernel } from '../../lib/kernel/real/kernel.ts';
import { version } from '../../lib/text/version.ts';
import { findRoute } from '../../lib/kubernetes/find-route.ts';
import { lookAtHost } from '../../agent/main.ts';

/** Three adverts a second apart, as keepalived sends them unless told otherwise. */
const defaultCaptureMs = 3500;

const flags = {
  json,
  all: toggle('also list the checks that found nothing'),
  capture: text(
    'DURATION',
    'how long to listen to VRRP adverts; 0s: not at all (default: 3.5s)',
    bySchema(duration(0, 60_000), defaultCaptureMs, '5s'),
  ),
  color,
};

/** Its user may not have a virtual IP yet. */
const hint =
  ". Name the address at which clients reach the API. For a new cluster, choose a free address of the masters' network";

/** `vipnat doctor`. */
export const doctor = defineCommand({
  help: `
Examples:
  vipnat doctor --vip 10.0.0.50
  vipnat doctor --vip 10.0.0.50 --json
  vipnat doctor --vip 10.0.0.50 --capture 0s     without listening to VRRP adverts

Use doctor before an installation, and when something is wrong. doctor needs neither
the agent nor the API, changes nothing, and lists what it could not check.
If an agent runs here, no option is needed: the command takes the agent's options.
Exit status: 0 nothing wrong, 1 failed, 2 warnings, 3 failures found, 78 bad configuration.`,
  flags,
  heeds: [...hostOptions, 'runDir'],
  agentScope: () => 'host',
  check: ({ noVip }) => noVip(hint),
  run: examineHost,
});

/** What is wrong with this host, and what mends it. Exit `done`, `found` with warnings only, or `foundFailures`. */
async function examineHost({
  config,
  given,
  options,
  screen,
  stdout,
  stderr,
}: CommandContext<OptionsOf<typeof flags>>): Promise<number> {
  const facts = await gatherFacts({
    config,
    version,
    flags: quoteWords(toArguments(config, given)),
    clock: systemClock,
    kernel: createKernel({ onProblem: () => undefined }),
    // In order: its end takes nothing from the peer's kernel.
    connect: (endpoint, limitMs) => connectOnce(systemClock, endpoint, { limitMs, end: 'close' }),
    look: () => lookAtHost(config, stderr),
    captureMs: options.capture,
    route: findRoute({ ...config, vips: [] }),
    node: nameNode(config),
  });
  const found = examine(facts);
  stdout(
    options.json ? formatDoctorJson(found, hostname()) : formatExamination(found, options.all, screen()),
  );
  return chooseDoctorStatus(countOutcomes(found.topics));
}
