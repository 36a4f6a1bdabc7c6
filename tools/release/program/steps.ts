import type { Program } from './requirements.ts';
import type { Release } from '../settings/release.ts';
import { makeNpmTarball } from '../npm/tarball.ts';
import { writeKrewManifest } from '../npm/krew.ts';
import { makeExecutables } from '../executable/executable.ts';
import { makePackages } from '../packages/packages.ts';
import { writeVex } from '../documents/vex.ts';
import { writeSboms } from '../documents/sbom.ts';
import { makeChart } from '../cluster/chart.ts';
import { writeInstallYaml } from '../cluster/install-yaml.ts';
import { makeImages } from '../images/images.ts';
import { writeLicenses } from '../documents/licenses.ts';
import { writeReleaseNotes } from '../documents/release-notes.ts';

/** One kind of artifact. */
export interface Step {
  readonly name: string;
  /** What it makes, in a phrase. */
  readonly makes: string;
  /** What it starts beside the packages of npm; nothing when left out. */
  readonly needs?: readonly Program[];
  /**
   * Makes its files in `output` and answers their names. It replaces those of an earlier run. The same checkout gives the
   * same bytes. Throws ReleaseError where a tool is missing.
   */
  readonly make: (release: Release) => Promise<readonly string[]> | readonly string[];
}

/** All steps, in the order in which they run: later ones may use the files of earlier ones. */
export const steps: readonly Step[] = [
  { name: 'npm', makes: "the package for npm's registry", make: makeNpmTarball },
  {
    name: 'krew',
    makes: "krew's manifest of kubectl vipnat; nothing without RELEASE_REPOSITORY",
    make: writeKrewManifest,
  },
  {
    name: 'executable',
    makes: 'one self-contained program for each processor',
    make: makeExecutables,
  },
  {
    name: 'packages',
    makes: 'the .deb and the .rpm for each processor',
    needs: ['go'],
    make: makePackages,
  },
  {
    name: 'sbom',
    makes: 'the SBOM of the npm package and of each program, as CycloneDX',
    make: writeSboms,
  },
  {
    name: 'vex',
    makes: 'what was found out about vulnerabilities, as OpenVEX; nothing where nobody checked one',
    make: writeVex,
  },
  { name: 'chart', makes: 'the Helm chart', make: makeChart },
  { name: 'install', makes: 'install.yaml, the DaemonSet for kubectl apply', make: writeInstallYaml },
  {
    name: 'images',
    makes: "both images for this machine's processor as OCI archives, with their SBOMs",
    needs: ['buildah'],
    make: makeImages,
  },
  { name: 'licenses', makes: 'the licenses of all parts of a program', make: writeLicenses },
  {
    name: 'notes',
    makes: "RELEASE-NOTES.md: the changelog's section of this version, and how to verify the files",
    make: writeReleaseNotes,
  },
];

/** The words of the command line. */
export const stepNames = steps.map(({ name }) => name);
