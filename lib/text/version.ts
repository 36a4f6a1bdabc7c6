/** Set by scripts/build, from package.json. */
declare const VIPNAT_VERSION: string | undefined;

/** The version of this build, as package.json has it; `from source` where no build was made. */
export const version = typeof VIPNAT_VERSION === 'undefined' ? 'from source' : VIPNAT_VERSION;
