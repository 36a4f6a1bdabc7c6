import { Spec, Validation } from '@cyclonedx/cyclonedx-library';
import { PackageURL } from 'packageurl-js';
import * as z from 'zod/mini';

const component = z.object({
  type: z.string(),
  group: z.optional(z.string()),
  name: z.string(),
  version: z.string(),
  purl: z.optional(z.string()),
  licenses: z.optional(z.array(z.unknown()).check(z.minLength(1))),
});

const bom = z.object({
  specVersion: z.literal('1.6'),
  metadata: z.object({ component, timestamp: z.optional(z.never()) }),
  serialNumber: z.optional(z.never()),
  components: z.array(component),
});

type Component = z.infer<typeof component>;

/**
 * What an SBOM says something is made of, itself too, each as its name and version, sorted; the operating system is left
 * out. Throws when it is not valid by CycloneDX's schema, when anything has no license or a purl that is not its own, and when it
 * says when it was made.
 */
export async function readComponents(text: string): Promise<string[]> {
  const problem: unknown = await new Validation.JsonStrictValidator(Spec.Version.v1dot6).validate(text);
  if (problem !== null) throw new Error(`no CycloneDX: ${JSON.stringify(problem)}`);
  const { metadata, components } = bom.parse(JSON.parse(text));
  const packages = components.filter(({ type }) => type !== 'operating-system');
  return [metadata.component, ...packages].map(toText).sort();
}

function toText({ group, name, version, purl = '', licenses }: Component): string {
  const fullName = group === undefined ? name : `${group}/${name}`;
  const { namespace, name: ownName, version: ownVersion, type } = PackageURL.fromString(purl);
  const purlName = type === 'npm' && namespace ? `${namespace}/${ownName}` : ownName;
  if (`${purlName} ${ownVersion}` !== `${fullName} ${version}`)
    throw new Error(`${purl} is not ${fullName} ${version}`);
  if (licenses === undefined) throw new Error(`${purl} has no license`);
  return `${fullName} ${version}`;
}
