import { exitStatuses } from '../../lib/text/exit-status.ts';
import { writeHostFiles } from '../generate/manifest/host-files.ts';
import { printManifest } from '../generate/manifest/print.ts';
import { toSystemdFiles } from '../generate/manifest/systemd.ts';
import { type ManifestContext } from '../grammar/command-context.ts';
import { ownImages } from '../generate/manifest/own-images.ts';
import { ownProgram } from '../generate/manifest/own-program.ts';

/** `vipnat manifest`: prints what runs the agent, or writes the files of systemd; looks at nothing else of this host. */
export async function manifest({ config, options, given, stdout, stderr }: ManifestContext): Promise<number> {
  const request = { config, options, given, ownImages, ownProgram };
  if (options.directory === null) {
    stdout(printManifest(request));
    return exitStatuses.done;
  }
  for (const path of await writeHostFiles(toSystemdFiles(request), options.directory)) stdout(`${path}\n`);
  stderr(`Next, on the host:\n${nextSteps.map((line) => `  ${line}\n`).join('')}`);
  return exitStatuses.done;
}

/** A reload keeps the VIP where it is. */
const nextSteps = [
  'systemctl daemon-reload',
  'systemd-tmpfiles --create vipnat.conf',
  'systemctl enable --now vipnat',
  'systemctl restart vipnat   # if it ran before: this applies the new options',
  'systemctl reload keepalived   # if it runs: it then follows the agent',
];
