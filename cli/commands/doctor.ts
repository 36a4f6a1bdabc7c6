import { hostname } from 'node:os';
import { systemClock } from '../../lib/control/clock.ts';
import { quoteWords } from '../../lib/text/shell-words.ts';
import { toArguments } from '../../config/arguments.ts';
import { gatherFacts } from '../doctor/facts/gather.ts';
import { examine } from '../doctor/stage/examine.ts';
import { type DoctorContext } from '../grammar/command-context.ts';
import { chooseDoctorStatus, countOutcomes, formatExamination } from '../format/screens/doctor.ts';
import { formatDoctorJson } from '../format/json/doctor-json.ts';
import { nameNode } from '../../config/node-name.ts';
import { connectOnce } from '../../lib/probe/connect.ts';
import { createKernel } from '../../lib/kernel/real/kernel.ts';
import { version } from '../../lib/text/version.ts';
import { findRoute } from '../../lib/kubernetes/find-route.ts';
import { lookAtHost } from '../../agent/main.ts';

/** `vipnat doctor`: what is wrong with this host, and what mends it. Exit `done`, `found` with warnings only, or `foundFailures`. */
export async function doctor({
  config,
  given,
  options,
  screen,
  stdout,
  stderr,
}: DoctorContext): Promise<number> {
  const facts = await gatherFacts({
    config,
    version,
    flags: quoteWords(toArguments(config, given)),
    clock: systemClock,
    kernel: createKernel({ onProblem: () => undefined }),
    // In order: its end takes nothing from the peer's kernel.
    connect: (endpoint, limitMs) => connectOnce(systemClock, endpoint, { limitMs, end: 'close' }),
    look: () => lookAtHost(config, stderr),
    captureMs: options.captureMs,
    route: findRoute({ ...config, vips: [] }),
    node: nameNode(config),
  });
  const found = examine(facts);
  stdout(
    options.json ? formatDoctorJson(found, hostname()) : formatExamination(found, options.all, screen()),
  );
  return chooseDoctorStatus(countOutcomes(found.topics));
}
